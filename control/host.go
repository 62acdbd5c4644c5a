// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// instant is a time as nanoseconds since the Node was made, by the monotonic
// clock where the caller's times have one. Tables of millions keep 8 octets.
type instant int64

type host struct {
	start    time.Time
	counters counters
}

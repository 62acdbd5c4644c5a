// SPDX-License-Identifier: Apache-2.0

package control

// Times as the Node keeps them: nanoseconds since just before it was made.

// instant is a time as nanoseconds since just before the Node was made, by the monotonic
// clock where the caller's times have one. Tables of millions keep 8 octets.
type instant int64

// never is later than every deadline.
const never = instant(1<<63 - 1)

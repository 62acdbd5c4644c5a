// SPDX-License-Identifier: Apache-2.0

package timing

// Times as the Node keeps them: nanoseconds since just before it was made.

// Instant is a time as nanoseconds since just before the Node was made, by the monotonic
// clock where the caller's times have one. Tables of millions keep 8 octets.
type Instant int64

// Never is later than every deadline.
const Never = Instant(1<<63 - 1)

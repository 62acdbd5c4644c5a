// SPDX-License-Identifier: Apache-2.0

// Package observe tells what happens in the data plane to who asks from outside: Tracer runs
// copies of the programs on one packet and tells their steps, Capture reads the packets that
// are dropped, Counters sums up what programs and user space count. A trace and a capture
// need no daemon, only the pins of an instance.
package observe

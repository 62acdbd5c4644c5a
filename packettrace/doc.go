// SPDX-License-Identifier: Apache-2.0

// Package packettrace shows what the data plane in the kernel does with packets: `loci trace` and `loci capture`.
//
// Trace has copies of the loaded programs decide about a packet, one that is made from the words of a filter or
// those that come by, and tells each step. Capture reads the packets that the programs drop, with the reason. Both
// open what is pinned and need no running daemon.
package packettrace

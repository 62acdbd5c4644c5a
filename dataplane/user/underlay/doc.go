// SPDX-License-Identifier: Apache-2.0

// Package underlay has the UDP sockets of the user engine: outer packets leave by them and come in by them, many with one
// system call, and many datagrams of one length as one train (UDP_SEGMENT, UDP_GRO). The kernel writes the outer headers
// as control messages say, and tells what they said. The package knows nothing of LISP but its ports.
//
// Pool has the lock, which guards whether it has ended and who is told of errors.
package underlay

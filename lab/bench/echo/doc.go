// SPDX-License-Identifier: Apache-2.0

// Package echo is the floor of benches whose daemons answer messages: a server that sends each UDP datagram back, and clients
// that measure it. No daemon answers sooner than a server that does nothing with a message, and none answers more messages a
// second.
//
// The server is a process of its own, as daemons are. It takes one datagram for each system call, which is
// the shortest round trip, or as many as have come (recvmmsg, sendmmsg), which is the highest rate. It uses no GSO.
package echo

// SPDX-License-Identifier: Apache-2.0

// Package datapath finds out whether packets reach the routers of the mappings in use, and come back: UDP port 4341,
// and packets of full size. It sends echo requests of an own EID through the data plane, whose TTL ends at the other
// site's router, which answers with Time Exceeded (RFC 9300 s.5.3). Silence of a router is no evidence (RFC 9300
// s.10): only one that answered such checks before, answers RLOC-probes now, and no check, is said to have a lost
// data path. Watch decides what is sent when and what it means, in the caller's time; Checker has the sockets and the
// clock.
//
// Checker has the lock, which guards the Watch, what was sent, and what was logged and counted of it.
package datapath

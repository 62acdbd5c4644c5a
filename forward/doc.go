// SPDX-License-Identifier: Apache-2.0

// Package forward is what ITR, ETR, RTR, PITR and PETR do to packets, as pure functions on
// bytes: encapsulation and decapsulation (RFC 9300 s.5), TTL, DSCP and ECN
// (RFC 9300 s.5.3, RFC 6040), the choice of a locator by flow (RFC 9300 s.12),
// the answers to packets that do not fit (RFC 9300 s.7), and the queue of packets
// that wait for a mapping.
//
// A packet goes through stages, a file each; xtr.go leads it through them:
//
//	classify.go     is it a packet of the site, or one from the core for us?
//	decapsulate.go  from the core: read the LISP header and the inner packet
//	admit.go        is it ours to forward?
//	lookup.go       what does the map-cache say of the destination and, with two layers, of the RLOC?
//	select.go       make the Action: locator, outer headers, path MTU
//	apply.go        carry it out: write headers
//
// A packet from the core is looked up before it is admitted, because only what is
// this router's is judged any further. One that an RTR relays then goes through the
// stages of a packet of the site: what waits, or is too big, is the inner packet, and
// its TTL is one less when it leaves. The stack answers for those whose TTL is at its
// end, and its answer goes by LISP. Nothing but apply.go writes headers of
// packets that are forwarded.
//
// It is the executable specification of the programs in bpf/, which have the same
// stages: one table of golden packets (testdata/packets) runs through both with
// equal results. Engines that forward in user space use it as it is.
//
// It never touches sockets, clocks, locks, random sources or global state: time,
// nonces and buffers are arguments. Encapsulation and decapsulation allocate
// nothing when the caller's buffer is large enough.
package forward

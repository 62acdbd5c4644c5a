// SPDX-License-Identifier: Apache-2.0

// Package lispnat is LISP-NAT (RFC 6832 s.7) by the kernel's own address translation: it keeps a table of nftables as
// the entries of itr.lisp-nat need it, and reads what the kernel's connection tracking knows of their sessions.
//
// The table is made whole or not at all, is found again after a crash, and comes back when it was removed. Tables of
// others are never touched. Only packets that the host forwards are translated: those that it sends itself, control
// messages and encapsulated packets among them, are not.
//
// Translator has the lock, which guards what is wanted, what was found, and the counts of tables that are gone. A
// build with the tag nolispnat has none of it, and refuses entries.
package lispnat

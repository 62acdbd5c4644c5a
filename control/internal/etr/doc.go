// SPDX-License-Identifier: Apache-2.0

// Package etr is the ETR: it answers Map-Requests and RLOC-probes for the EID-Prefixes of its
// Database (RFC 9301 s.5.4, s.5.5, s.7.1), and announces changes of the Database to the data plane, to
// the Map-Servers (package registrar) and to those who cached a mapping (package solicit). It never
// answers for EIDs of others.
//
// A change is announced in one pass over the old and the new Database in the order of prefixes, a
// bounded number of rows per event-loop iteration. One pass is finished before the next begins.
package etr

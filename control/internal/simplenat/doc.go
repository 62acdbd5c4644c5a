// SPDX-License-Identifier: Apache-2.0

// Package simplenat is NAT traversal as lispers.net's code has it (draft-farinacci-lisp-lispers-net-nat, which differs
// in places: both forms are spoken): the Map-Server, which answers Info-Requests; the RTR, which knows by Info-Requests
// at its data port where the host names of locators are; and the xTR behind a NAT, which registers directly, with its
// translated address, its name and its RTRs. It has IPv4 RLOCs only. Nothing in its messages is authenticated but what
// is registered: a name leads nowhere but to the address that is registered with it.
package simplenat

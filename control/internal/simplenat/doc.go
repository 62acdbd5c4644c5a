// SPDX-License-Identifier: Apache-2.0

// Package simplenat is NAT traversal as lispers.net's code has it (draft-farinacci-lisp-lispers-net-nat, which differs
// in places: both forms are spoken). The Map-Server answers Info-Requests and tells ITRs of RTRs only. The node asks
// how it looks from outside and registers that with its RTRs. The RTR learns which ports NATs have for the nodes. All
// have IPv4 RLOCs only. Nothing in its messages is authenticated but what is registered.
package simplenat

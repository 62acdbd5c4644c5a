// SPDX-License-Identifier: Apache-2.0

// Package simplenat is NAT traversal as lispers.net's code has it (draft-farinacci-lisp-lispers-net-nat, which differs
// in places: both forms are spoken): the Map-Server's part, which answers Info-Requests and tells ITRs of RTRs only. It
// has IPv4 RLOCs only. Nothing in its messages is authenticated but what is registered.
package simplenat

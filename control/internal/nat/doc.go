// SPDX-License-Identifier: Apache-2.0

// Package nat is NAT traversal (draft-ermagan-lisp-nat-traversal): the side of a node, which finds out whether it is
// behind a NAT and registers by an RTR then, and that of the RTR, which relays Map-Registers and knows by their
// Map-Notifies where a node is. An address that no Map-Server has acknowledged is never sent a data packet.
package nat

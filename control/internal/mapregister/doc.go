// SPDX-License-Identifier: Apache-2.0

// Package mapregister has the Map-Registers that are under way (RFC 9301 s.5.6, s.5.7, s.8.2): each is sent with a
// nonce of its own, repeated until a Map-Notify comes, and refreshed every interval.
//
// What a Map-Server does not acknowledge is registered apart, each EID-Prefix in a message of its own, so that one
// refused EID-Prefix does not keep the others from being registered. Package registrar says which Map-Servers there
// are and what each is to have.
package mapregister

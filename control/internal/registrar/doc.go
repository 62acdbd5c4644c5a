// SPDX-License-Identifier: Apache-2.0

// Package registrar registers the ETR's Database with Map-Servers (RFC 9301 s.5.6, s.5.7, s.8.2):
// Map-Registers within the size of control messages, authenticated, repeated until a Map-Notify comes,
// refreshed every interval, and withdrawn when a prefix leaves the Database.
//
// What a Map-Server does not acknowledge is registered apart, each EID-Prefix in a message of its own,
// so that one refused EID-Prefix does not keep the others from being registered.
package registrar

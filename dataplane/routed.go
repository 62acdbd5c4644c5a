// SPDX-License-Identifier: Apache-2.0

package dataplane

// Engines that packets reach by the host's routes.

// HostRouted is an engine that sees no interface: packets reach it by the LISP interface alone. The host's routes have to lead
// there what comes in by interfaces of the site, and what comes in for the EIDs of a PITR.
type HostRouted interface {
	Plane
	// HostRouted reports whether that is so.
	HostRouted() bool
}

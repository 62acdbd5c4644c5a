// SPDX-License-Identifier: Apache-2.0

// Package mapserver is the Map-Server (RFC 9301 s.5.6, s.5.7, s.8.2, s.8.3): it accepts
// registrations, answers Map-Requests for the sites that asked for it, forwards the others to an ETR,
// and tells the other xTRs of a site when a registration changes. Messages arrive authenticated and
// with EID-Prefixes that their site may register.
//
// The table of registrations holds a million rows without pointers, so that the garbage collector has
// nothing to walk. The journal writes what has to survive a restart as octets; the caller stores them.
package mapserver

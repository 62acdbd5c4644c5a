// SPDX-License-Identifier: Apache-2.0

// Package mapresolver is the Map-Resolver: it passes Encapsulated Map-Requests to the Map-Server that
// is configured for their EID, or answers that no mapping exists (RFC 9301 s.8.4). It caches nothing.
package mapresolver

// SPDX-License-Identifier: Apache-2.0

// Package mapcache is the table of the ITR's map-cache: mappings by EID-Prefix with their deadlines
// (RFC 9300 s.3, RFC 9301 s.5.5). It chooses which entry is evicted, and decides nothing else.
package mapcache

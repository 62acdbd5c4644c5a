// SPDX-License-Identifier: Apache-2.0

package lisp

// Map-Version numbers (RFC 9302 s.6): 12 bits on a circle, 0 for "no version".
// Numbers are an operator's: nothing here assigns them to mappings (RFC 9302 s.6).

// MaxMapVersion is the largest Map-Version; the next one after it is 1.
const MaxMapVersion = 1<<12 - 1

// NullMapVersion says that a mapping has no version; it is never compared.
const NullMapVersion = 0

// CompareMapVersions orders two Map-Versions by RFC 9302 s.6: negative when a is older
// than b, positive when it is newer, 0 when they are the same or one of them is Null.
func CompareMapVersions(a, b uint16) int {
	const half = 1 << 11
	switch {
	case a == b, a == NullMapVersion, b == NullMapVersion:
		return 0
	case b > a && b-a <= half, a > b && a-b > half:
		return -1
	}
	return 1
}

// NextMapVersion is the version after v; it passes over Null (RFC 9302 s.6.1).
func NextMapVersion(v uint16) uint16 {
	if v >= MaxMapVersion {
		return 1
	}
	return v + 1
}

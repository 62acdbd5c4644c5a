// SPDX-License-Identifier: Apache-2.0

// Package duplicates finds out whether another router, which does not know of this one, registers an EID-Prefix of ours: the mapping
// system then answers with its RLOCs and none of ours. It says which EID-Prefix is asked for next and judges the answers. It sends
// nothing, and changes no mapping.
package duplicates

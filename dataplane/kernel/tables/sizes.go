// SPDX-License-Identifier: Apache-2.0

// This file says how large the arrays of the tables are.

package tables

import "math"

// DefaultLocatorSets is how many locator-sets there is room for beside so many
// mappings: one for each up to 65536 (15 MB), and one for every 32 beyond, because
// equal sets are stored once and mappings of one site mostly have the same. Some are
// spare: a set that replaces another needs a place beside it for a moment.
func DefaultLocatorSets(mappings int) int {
	const (
		oneEach   = 1 << 16
		shareBy   = 32
		spareSets = 1 << 8
	)
	return min(mappings, oneEach) + max(mappings-oneEach, 0)/shareBy + spareSets
}

// LocatorsBeside is how many locators so many locator-sets may have together: two
// each, which is what most have at most, and some for the few that have many.
func LocatorsBeside(locatorSets int) uint32 {
	const spare = 1 << 10
	return uint32(min(2*int64(locatorSets)+spare, math.MaxUint32))
}

// RunWords is how many words programs are told of so many mappings.
func RunWords(mappings int) int {
	const each = runLength * wordRuns
	return (mappings + each - 1) / each
}

// DefaultMappings is how many mappings, and entries of the Database, there is room for unless the caller says otherwise.
const DefaultMappings = 1 << 16

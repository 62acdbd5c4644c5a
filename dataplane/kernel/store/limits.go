// SPDX-License-Identifier: Apache-2.0

// This file computes the sizes of the maps.

package store

import (
	"fmt"
	"math"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
)

// Limits are the sizes that the user chooses; 0 leaves them to us.
type Limits struct{ Mappings, LocatorSets int }

// entries returns the sizes of maps on a machine of so many processors.
func (l Limits) entries(processors int) (map[string]uint32, error) {
	mappings, locatorSets := l.Mappings, l.LocatorSets
	if mappings <= 0 {
		mappings = tables.DefaultMappings
	}
	if locatorSets <= 0 {
		locatorSets = tables.DefaultLocatorSets(mappings)
	}
	if max(int64(mappings)*int64(processors), int64(locatorSets)) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: %d mappings on %d processors, %d locator-sets", dataplane.ErrInvalid, mappings, processors, locatorSets)
	}
	return map[string]uint32{
		abi.MapMappings: uint32(mappings), abi.MapMappingCounters: uint32(mappings * processors),
		abi.MapLocatorSets: uint32(locatorSets), abi.MapLocators: tables.LocatorsBeside(locatorSets),
		abi.MapActions: uint32(abi.ActionsEach * processors), abi.MapFlows: uint32(abi.FlowsEach * processors),
		abi.MapBoundAnswers: uint32(abi.FlowsEach * processors),
		abi.MapMappingRuns:  uint32(tables.RunWords(mappings)),
	}, nil
}

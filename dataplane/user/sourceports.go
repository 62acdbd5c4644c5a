// SPDX-License-Identifier: Apache-2.0

package user

// The source ports of locators, which are open before a mapping that names them is in the tables. Nothing here sends.

import (
	"fmt"

	"loci/dataplane"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/user/underlay"
)

// sourcePorts are those of locators.
type sourcePorts struct {
	space *netspace.Space
	pool  *underlay.Pool
}

// open opens the source ports of a mapping's locators, before the mapping is used.
func (s *sourcePorts) open(operation dataplane.Operation) error {
	put, is := operation.(dataplane.PutMapping)
	if !is {
		return nil
	}
	locators := put.Entry.Mapping.Locators
	for i := range locators {
		port := locators[i].SourcePort
		if port == 0 {
			continue
		}
		if err := s.space.Do(func() error { return s.pool.FixPort(port) }); err != nil {
			return fmt.Errorf("packets to %s cannot leave from port %d: %w", locators[i].Path(), port, err)
		}
	}
	return nil
}

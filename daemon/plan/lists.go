// SPDX-License-Identifier: Apache-2.0

package plan

// Deny and allow lists, from the configuration to the data plane.

import (
	"loci/config"
	"loci/dataplane"
)

var listAddresses = map[config.ListAddress]dataplane.ListAddress{
	config.ListInnerSource: dataplane.ListInnerSource, config.ListInnerDestination: dataplane.ListInnerDestination,
	config.ListOuterSource: dataplane.ListOuterSource, config.ListOuterDestination: dataplane.ListOuterDestination,
}

func accessListsOf(lists []config.AccessList) (made []dataplane.AccessList) {
	for _, l := range lists {
		list := dataplane.AccessList{Address: listAddresses[l.Address], Instance: l.InstanceID, Allow: l.Allow, Deny: l.Deny}
		if l.Packets == config.ListDecapsulated {
			list.Packets = dataplane.ListDecapsulated
		}
		made = append(made, list)
	}
	return made
}

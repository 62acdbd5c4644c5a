// SPDX-License-Identifier: Apache-2.0

// This file opens the maps of an instance: those in force, converted where an older version left them, or new ones.
// It attaches nothing.

package kernel

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/attach"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tables"
	"loci/dataplane/kernel/upgrade"
)

// ErrElsewhere says that the instance forwards in another network namespace.
var ErrElsewhere = errors.New("the instance is in force in another network namespace: use another name")

// storeOpening is what the maps of an instance are opened by.
type storeOpening struct {
	log    *slog.Logger
	pins   *pins.Directory
	space  *netspace.Space
	limits store.Limits // that are wanted
}

// open opens the maps; found says that they were in force. Those of a network namespace that is gone are removed.
func (o storeOpening) open() (maps *store.Store, found bool, err error) {
	older, err := upgrade.Open(o.pins)
	if err != nil {
		return nil, false, err
	}
	if older != nil {
		if older.Words[store.WordNamespace] == o.space.Cookie {
			o.log.Info("converting the tables in force", "from", older.Version, "to", abi.Version)
			maps, err = older.Convert(o.pins, o.limits)
			return maps, true, errors.Join(err, older.Close())
		}
		if err := errors.Join(o.removeElsewhere(older.Maps), older.Close()); err != nil {
			return nil, false, err
		}
	}
	if maps, found, err = store.Open(o.pins, o.limits); err != nil {
		return nil, false, err
	}
	home := &maps.Words[store.WordNamespace]
	if !found {
		*home = o.space.Cookie
		return maps, false, nil
	}
	if *home == o.space.Cookie {
		o.warnOfLimits(maps)
		return maps, true, nil
	}
	if err := errors.Join(o.removeElsewhere(maps.Maps()), maps.Close()); err != nil {
		return nil, false, err
	}
	if maps, _, err = store.Open(o.pins, o.limits); err != nil {
		return nil, false, err
	}
	maps.Words[store.WordNamespace] = o.space.Cookie
	return maps, false, nil
}

// removeElsewhere removes what an instance left in another network namespace, unless
// it is in force there.
func (o storeOpening) removeElsewhere(maps map[string]*ebpf.Map) error {
	if attached, err := attach.AttachedAnywhere(o.pins, maps); attached || err != nil {
		return cmp.Or(err, ErrElsewhere)
	}
	o.log.Info("removing what an instance left in a network namespace that is gone", "directory", o.pins.Path)
	return removeAll(o.pins.Maps(), o.pins.Links(), o.pins.Disciplines())
}

// warnOfLimits reports limits that are wanted and do not hold yet.
func (o storeOpening) warnOfLimits(maps *store.Store) {
	wanted := o.limits
	if wanted.LocatorSets <= 0 {
		wanted.LocatorSets = tables.DefaultLocatorSets(len(maps.Records))
	}
	differs := func(wanted, have int) bool { return wanted > 0 && wanted != have }
	if differs(wanted.Mappings, len(maps.Records)) || differs(wanted.LocatorSets, len(maps.Sets)) {
		o.log.Warn("limits of the tables in force hold until they are detached",
			"mappings", len(maps.Records), "locator_sets", len(maps.Sets))
	}
}

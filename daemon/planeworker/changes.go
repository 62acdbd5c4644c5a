// SPDX-License-Identifier: Apache-2.0

package planeworker

// From the effects of a Node to the operations of a data plane.

import (
	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

// Change queues a change of the tables that the Node wants; other effects are not its business.
func (w *Worker) Change(effect control.Effect) {
	switch e := effect.(type) {
	case control.InstallMapping:
		w.queue(changeKey{prefix: e.Mapping.Prefix}, dataplane.PutMapping{Entry: entryOf(e.MapCacheEntry)})
	case control.RemoveMapping:
		w.queue(changeKey{prefix: e.Prefix}, dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		w.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
			Prefix: e.Prefix, Locators: e.Locators, Version: e.Version,
		}})
	case control.SetLocatorState:
		// The key of a locator is in the one Instance-ID that no EID has.
		key := changeKey{prefix: lisp.HostPrefix(lisp.ControlInstanceID, lisp.EIDFromAddr(e.RLOC.Addr())), port: e.RLOC.Port(), behind: e.Behind}
		w.queue(key, dataplane.PutLocatorState{RLOC: e.RLOC, Behind: e.Behind, State: planeStates[e.State]})
	case control.RemoveDatabase:
		w.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.DeleteDatabase{Prefix: e.Prefix})
	}
}

// planeStates are the data plane's words for the states that a Node tells.
var planeStates = map[control.LocatorState]dataplane.LocatorState{
	control.LocatorUp: dataplane.LocatorUp, control.LocatorHeard: dataplane.LocatorHeard,
	control.LocatorUnconfirmed: dataplane.LocatorUnconfirmed, control.LocatorDown: dataplane.LocatorDown,
}

// PlaneState is the data plane's word for a state that a Node tells.
func PlaneState(s control.LocatorState) dataplane.LocatorState { return planeStates[s] }

// NodeState is the Node's word for a state that the data plane has.
func NodeState(s dataplane.LocatorState) control.LocatorState {
	for word, state := range planeStates {
		if state == s {
			return word
		}
	}
	return control.LocatorUp
}

// entryOf is a map-cache entry as the data plane takes it.
func entryOf(e control.MapCacheEntry) dataplane.MapCacheEntry {
	return dataplane.MapCacheEntry{Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt}
}

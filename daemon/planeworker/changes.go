// SPDX-License-Identifier: Apache-2.0

package planeworker

// From the effects of a Node to the operations of a data plane.

import (
	"loci/control"
	"loci/dataplane"
	"loci/internal/nodeplane"
	"loci/lisp"
)

// Change queues a change of the tables that the Node wants; other effects are not its business.
func (w *Worker) Change(effect control.Effect) {
	switch e := effect.(type) {
	case control.InstallMapping:
		w.queue(changeKey{prefix: e.Mapping.Prefix}, dataplane.PutMapping{Entry: nodeplane.PlaneEntry(e.MapCacheEntry)})
	case control.RemoveMapping:
		w.queue(changeKey{prefix: e.Prefix}, dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		w.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
			Prefix: e.Prefix, Locators: e.Locators, Version: e.Version,
		}})
	case control.SetLocatorState:
		// The key of a locator is in the one Instance-ID that no EID has.
		key := changeKey{prefix: lisp.HostPrefix(lisp.ControlInstanceID, lisp.EIDFromAddr(e.RLOC.Addr())),
			port: e.RLOC.Port(), rest: string(e.Behind)}
		w.queue(key, dataplane.PutLocatorState{RLOC: e.RLOC, Behind: e.Behind,
			State: nodeplane.PlaneState(e.State)})
	case control.BindFlow:
		w.queue(flowKey(&e.Flow), dataplane.PutFlow{Flow: e.Flow, Path: e.Path})
	case control.UnbindFlow:
		w.queue(flowKey(&e.Flow), dataplane.DeleteFlow{Flow: e.Flow})
	case control.RemoveDatabase:
		w.queue(changeKey{database: true, prefix: e.Prefix}, dataplane.DeleteDatabase{Prefix: e.Prefix})
	}
}

// flowKey is the key of a flow: in the Instance-ID that no EID has as well, where the Database has nothing.
func flowKey(f *lisp.Flow) changeKey {
	return changeKey{database: true, prefix: lisp.HostPrefix(lisp.ControlInstanceID, f.Source), port: f.SourcePort,
		rest: f.String()}
}

// SPDX-License-Identifier: Apache-2.0

package answers

// What the control socket tells, from the loop's tables and the data plane's. A
// question to the loop copies what it needs and leaves: the documents are made
// outside of it.

import (
	"fmt"
	"slices"
	"time"

	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/lispnat"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/daemon/trouble"
	"loci/dataplane"
)

// State is what changes while a daemon runs.
type State interface {
	InForce() *plan.Plan
	IsReady() bool
	// Warnings are those about the configuration and about the host.
	Warnings() []trouble.Trouble
	// DataPlane names the engine ("kernel" or "user"), says why it is not the one that comes first, and which features of the
	// host are missing, with the effect of each.
	DataPlane() (name, reason string, missing []string)
}

// Answers answers at the control socket from the parts of a daemon. A part that the daemon does not have is nil.
type Answers struct {
	ConfigFile string
	StartedAt  time.Time
	Remote     bool // the data plane is another process's
	Loop       *eventloop.Loop
	Sockets    *transport.Sockets
	Handed     *handover.Handover
	Plane      dataplane.Plane // what the control plane drives
	Engine     dataplane.Plane // plane, or the engine behind it
	Worker     *planeworker.Worker
	Journal    *store.Journal
	Watch      *hostnet.Watch
	DataPaths  *datapath.Checker
	Translator *lispnat.Translator
	State      State
}

// planeWarnings tell that the data plane may not do what the tables here say.
func (a *Answers) planeWarnings() []trouble.Trouble {
	if a.Worker == nil {
		return nil
	}
	entries, since := a.Worker.Failing()
	if entries == 0 {
		return nil
	}
	return []trouble.Trouble{{
		Kind: trouble.PlaneRefused, What: fmt.Sprintf("the data plane refuses changes of its tables: entries %d", entries),
		Effect: "it may forward by other mappings than `loci show map-cache` has", Remedy: "the log names them (plane_changes_refused_total)", Since: since,
	}}
}

// warnings are all that `loci show status` lists.
func (a *Answers) warnings() []trouble.Trouble {
	list := slices.Concat(a.State.Warnings(), a.planeWarnings())
	if since, reason, failing := a.Journal.Trouble(); failing {
		list = append(list, trouble.Trouble{
			Kind: trouble.NotStored, What: "the registrations are not stored since " + since.Format(time.DateTime) + " (" + reason + ")",
			Effect: "a restart would lose what came since", Remedy: "free space on the disk, or replace it: the daemon tries again every few seconds", Since: since,
		})
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package eventloop

// The Node's tables for a data plane that was away, one page an iteration. Later changes follow as usual.

import (
	"context"
	"time"

	"loci/control"
	"loci/lisp"
)

// toldPage bounds what one iteration queues.
const toldPage = 512

// tablesQueued is how much of them is queued.
type tablesQueued struct {
	after     lisp.Prefix // of the Database
	entry     uint32      // of the map-cache
	locator   uint32
	flow      uint32
	databases bool // all of it was told
	entries   bool
	locators  bool
	flows     bool
}

// QueueTables queues all of the Node's tables for the data plane. It errs when the loop ends first.
func (l *Loop) QueueTables(ctx context.Context) error {
	for t := (&tablesQueued{}); !t.flows; {
		if _, err := Ask(ctx, l, func(*control.Node, time.Time) struct{} { l.queuePage(t); return struct{}{} }); err != nil {
			return err
		}
	}
	return nil
}

// queuePage queues the next page of the Node's tables: the Database, the map-cache, which locators are not up, and
// flows that are bound.
func (l *Loop) queuePage(t *tablesQueued) {
	switch {
	case !t.databases:
		page := l.node.DatabasePage(t.after, toldPage)
		for i := range page {
			l.change(control.InstallDatabase{DatabaseMapping: page[i]})
			t.after = page[i].Prefix
		}
		t.databases = len(page) < toldPage
	case !t.entries:
		page, next, more := l.node.MapCachePage(t.entry, toldPage)
		t.entry, t.entries = next, !more
		for i := range page {
			l.change(control.InstallMapping{MapCacheEntry: page[i]})
		}
	case t.locators:
		page, next, more := l.node.SubflowsPage(t.flow, toldPage)
		t.flow, t.flows = next, !more
		for i := range page {
			if !page[i].Path.IsZero() {
				l.change(control.BindFlow{Flow: page[i].Flow, Path: page[i].Path})
			}
		}
	default:
		page, next, more := l.node.LocatorsPage(t.locator, toldPage)
		t.locator, t.locators = next, !more
		for i := range page {
			l.change(control.SetLocatorState{RLOC: page[i].RLOC, Behind: page[i].Behind, State: page[i].Told})
		}
	}
}

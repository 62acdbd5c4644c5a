// SPDX-License-Identifier: Apache-2.0

package daemon

// The Node's tables for a data plane that was away, a page a turn; what changes meanwhile follows by itself.

import (
	"loci/control"
	"loci/lisp"
)

// toldPage bounds what one turn of the loop tells.
const toldPage = 512

// telling is where that is.
type telling struct {
	after     lisp.Prefix // of the Database
	entry     uint32      // of the map-cache
	locator   uint32
	databases bool // all of it was told
	entries   bool
	locators  bool
}

// queuePage queues the next page of the Node's tables: the Database, the map-cache, and which locators are not up.
func (l *loop) queuePage(t *telling) {
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
	default:
		page, next, more := l.node.LocatorsPage(t.locator, toldPage)
		t.locator, t.locators = next, !more
		for i := range page {
			l.change(control.SetLocatorState{RLOC: page[i].RLOC, State: page[i].Told})
		}
	}
}

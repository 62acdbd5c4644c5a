// SPDX-License-Identifier: Apache-2.0

package daemon

// A data plane in another process that was away is told everything again. What it has beyond that, the reports of usage
// bring to light. The Node's tables are gone through a page a turn; what changes meanwhile follows by itself.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/control"
	"loci/dataplane"
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

// tellAgain brings everything to a data plane that was away. After an error it is to be
// called again.
func (d *daemon) tellAgain() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	p := d.plan.Load()
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.settings})...); err != nil {
		return fmt.Errorf("settings of the data plane: %w", err)
	}
	d.forgetDatabase(*p)
	for t := (&telling{}); !t.locators; {
		if _, err := ask(context.Background(), d.loop, func(time.Time) struct{} { d.loop.queuePage(t); return struct{}{} }); err != nil {
			break // the daemon stops
		}
	}
	return nil
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

// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"testing"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// TestEventsOutliveTheEngine: those of each engine come by one channel, in which none is lost at the change, and which ends with the
// last.
func TestEventsOutliveTheEngine(t *testing.T) {
	first, second := model.New(model.Options{}), model.New(model.Options{})
	p := newPlane(first)
	events := p.Events()
	for n, engine := range []*model.Engine{first, second} {
		if n > 0 {
			p.applying.Lock()
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if _, done := p.TryApply(dataplane.Flush{MapCache: true}); done {
				t.Error("an operation was carried out while the engine is replaced")
			}
			p.put(second)
			p.applying.Unlock()
		}
		engine.Raise(dataplane.MTUChanged{MTU: n})
		if e, ok := (<-events).(dataplane.MTUChanged); !ok || e.MTU != n {
			t.Errorf("event of engine %d: %+v", n, e)
		}
	}
	entry := dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Action: lisp.ActionDrop}}
	if errs := p.Apply(dataplane.PutMapping{Entry: entry}); errs != nil {
		t.Fatal(errs)
	}
	if _, there := second.Mapping(entry.Mapping.Prefix); !there {
		t.Error("the mapping did not reach the engine that is in force")
	}
	third := model.New(model.Options{})
	for _, err := range third.Apply(tablesOf(p)...) {
		t.Errorf("the tables are not taken over: %v", err)
	}
	if _, there := third.Mapping(entry.Mapping.Prefix); !there {
		t.Error("the mapping was not taken over")
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if e, open := <-events; open {
		t.Errorf("after the end: %+v", e)
	}
}

// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/itr"
	"loci/control/internal/mapcache"
	"loci/lisp"
)

// TestAnITRThatBeginsKeepsWhatIsItsOwn switches the role off with more mappings than an iteration takes, and on again
// before the pass is over.
func TestAnITRThatBeginsKeepsWhatIsItsOwn(t *testing.T) {
	const count = 4 * retiredRows
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	c.ITR.RLOCProbing.Off = false
	s := newJournalledServer(t, c, epoch)
	fill := func(i int) {
		m := positive(fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256), 1)
		m.Locators = locators(fmt.Sprintf("198.51.%d.%d", i/256, i%256))
		s.itr.Cache.Install(mapcache.Entry{Mapping: m, ExpiresAt: s.host.After(time.Hour)})
	}
	lower := func(i int) {
		_, l, ok := s.itr.Prober.Table.Get(rloc(fmt.Sprintf("198.51.%d.%d", i/256, i%256)))
		if !ok {
			t.Fatalf("locator %d is not there", i)
		}
		s.itr.Prober.Table.Fall(l, LocatorUnconfirmed, LocatorUnanswered)
	}
	for i := range count {
		fill(i)
	}
	const kept, gone = count - 1, count - 2 // in the last batch
	lower(kept)
	lower(gone)
	drained(s.Node)

	off := c
	off.ITR = nil
	if err := s.Configure(s.now, off); err != nil {
		t.Fatal(err)
	}
	removed, up := map[lisp.Prefix]int{}, map[lisp.RLOC]int{}
	note := func() {
		for e, ok := s.Poll(); ok; e, ok = s.Poll() {
			switch e := e.(type) {
			case RemoveMapping:
				removed[e.Prefix]++
			case SetLocatorState:
				if e.State == LocatorUp {
					up[e.RLOC]++
				}
			}
		}
	}
	note()
	if len(removed) > retiredRows {
		t.Errorf("%d mappings removed in one turn", len(removed))
	}
	if err := s.Configure(s.now, c); err != nil {
		t.Fatal(err)
	}
	fill(kept)
	lower(kept)
	note()
	for next, ok := s.NextDeadline(); ok && next.Sub(s.now) < time.Millisecond && len(s.retired) > 0; next, ok = s.NextDeadline() {
		s.now = next
		s.HandleTimeout(next)
		note()
	}
	if len(removed) != count-1 || removed[lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 64+kept/256, kept%256))] != 0 {
		t.Errorf("%d mappings removed: want %d, and not the one that the new ITR has", len(removed), count-1)
	}
	for p, times := range removed {
		if times != 1 {
			t.Fatalf("%s removed %d times", p, times)
		}
	}
	if up[rloc(fmt.Sprintf("198.51.%d.%d", gone/256, gone%256))] != 1 {
		t.Error("what the old ITR held for down stays down")
	}
	if up[rloc(fmt.Sprintf("198.51.%d.%d", kept/256, kept%256))] != 0 {
		t.Error("what the new ITR holds for down came up")
	}
	if len(s.retired) != 0 {
		t.Errorf("%d passes are left", len(s.retired))
	}
}

// TestAnETRThatBeginsKeepsWhatIsItsOwn is the same for a Database.
func TestAnETRThatBeginsKeepsWhatIsItsOwn(t *testing.T) {
	const count = 4 * retiredRows
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	etr := *c.ETR
	for i := range count {
		p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256))
		etr.Database = append(etr.Database, DatabaseMapping{Prefix: p, Locators: locators("192.0.2.1"), TTLMinutes: 60})
	}
	last := etr.Database[len(etr.Database)-1]
	full := c
	full.ETR = &etr
	s := newJournalledServer(t, full, epoch)
	off, one := c, c
	off.ETR = nil
	etrOfOne := *c.ETR
	etrOfOne.Database = []DatabaseMapping{last}
	one.ETR = &etrOfOne
	installed := map[lisp.Prefix]bool{}
	for p := range s.Database() {
		installed[p.Prefix] = true
	}
	note := func() (effects int) {
		for e, ok := s.Poll(); ok; e, ok = s.Poll() {
			switch e := e.(type) {
			case InstallDatabase:
				installed[e.Prefix] = true
				effects++
			case RemoveDatabase:
				delete(installed, e.Prefix)
				effects++
			}
		}
		return effects
	}
	if err := s.Configure(s.now, off); err != nil {
		t.Fatal(err)
	}
	if effects := note(); effects > retiredRows {
		t.Errorf("%d changes in one turn", effects)
	}
	if err := s.Configure(s.now, one); err != nil {
		t.Fatal(err)
	}
	for note(); len(s.retired) > 0; note() {
		s.now = s.now.Add(time.Millisecond)
		s.HandleTimeout(s.now)
	}
	if len(installed) != 1 || !installed[last.Prefix] {
		t.Errorf("%d EID-Prefixes are in the data plane's Database: want the one of the ETR that began", len(installed))
	}
}

// TestLongWorkHoldsUpNothingElse: neither what is due at a moment, nor other long work.
func TestLongWorkHoldsUpNothingElse(t *testing.T) {
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	s := newJournalledServer(t, c, epoch)
	changed := *c.ITR
	for i := range 100 * (itr.StaticBatch / itr.StaticChangeCost) {
		changed.StaticMappings = append(changed.StaticMappings, positive(fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256), 1))
	}
	c.ITR = &changed
	if err := s.Configure(s.now, c); err != nil {
		t.Fatal(err)
	}
	drained(s.Node)
	s.now = s.now.Add(time.Hour) // the Map-Register is due, and more
	registered := s.host.Counters[counter.MapRegisterSent]
	s.itr.Sweeps.Start(itr.Sweep{Reinstall: true})
	for range 3 {
		s.HandleTimeout(s.now)
		drained(s.Node)
		s.now = s.now.Add(time.Microsecond)
	}
	if s.host.Counters[counter.MapRegisterSent] == registered {
		t.Error("no Map-Register was sent")
	}
	if len(s.itr.Sweeps.Queue) > 0 && s.itr.Sweeps.Queue[0].Cursor == 0 {
		t.Error("a sweep waits for the static mappings")
	}
	if len(s.itr.Statics.To) == 0 {
		t.Error("the static mappings are in after three iterations: this shows nothing")
	}
}

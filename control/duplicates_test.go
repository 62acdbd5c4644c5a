// SPDX-License-Identifier: Apache-2.0

package control

// Two routers with one EID that do not know of each other.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/duplicates"
	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

var duplicateEIDs = []string{"10.1.0.0/16", "2001:db8:1::/48"}

// twoWithOneEID are two routers of one EID-Prefix of each family, with an RLOC of each; they register in turn, half a minute apart.
func twoWithOneEID(t *testing.T, change func(c *Config)) (n *testNetwork, a, b *testNode) {
	t.Helper()
	n = newNetwork(t)
	n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48"), "192.0.2.100", "2001:db8:f::100")
	add := func(name string, id byte) *testNode {
		rlocs := []string{fmt.Sprintf("192.0.2.%d", id), fmt.Sprintf("2001:db8:f::%d", id)}
		c := xtrConfig(id, map[byte]string{1: "192.0.2.100", 2: "2001:db8:f::100"}[id], rlocs, duplicateEIDs...)
		if change != nil {
			change(&c)
		}
		return n.add(name, c, rlocs...)
	}
	a = add("a", 1)
	n.run(30 * time.Second)
	return n, a, add("b", 2)
}

// ownAsked are the EID-Prefixes of its own that a node asked for, and when.
func (d *testNode) ownAsked() (prefixes []lisp.Prefix, at []time.Time) {
	for i, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		if err != nil {
			d.net.t.Fatal(err)
		}
		if ecm, ok := m.(*wire.EncapsulatedControlMessage); ok {
			m, _ = wire.Parse(ecm.Inner.Message)
		}
		r, ok := m.(*wire.MapRequest)
		if !ok || r.SMR || r.Probe {
			continue
		}
		if asked, err := r.Records[0].Prefix(); err == nil && d.isOwn(asked) {
			prefixes, at = append(prefixes, asked), append(at, d.sentAt[i])
		}
	}
	return prefixes, at
}

// keepMapRegisters takes all else out of what a node sent: its questions about its own EID-Prefixes, and its answers to them.
func (d *testNode) keepMapRegisters() {
	for i := len(d.sent) - 1; i >= 0; i-- {
		if d.sent[i].Payload[0]>>4 != byte(wire.TypeMapRegister) {
			d.sent, d.sentAt = slices.Delete(d.sent, i, i+1), slices.Delete(d.sentAt, i, i+1)
		}
	}
}

func duplicatesOf(d *testNode) (list []string) {
	for _, p := range d.DuplicateEIDs() {
		list = append(list, p.Prefix.String())
	}
	slices.Sort(list)
	return list
}

// TestTwoRoutersWithOneEID: each of them finds out, and that it is over when the other one leaves.
func TestTwoRoutersWithOneEID(t *testing.T) {
	n, a, b := twoWithOneEID(t, nil)
	n.run(duplicates.Settled + duplicates.Interval)
	if list := append(duplicatesOf(a), duplicatesOf(b)...); len(list) > 0 {
		t.Errorf("told after one answer: %v", list)
	}
	for range 60 {
		n.run(duplicates.Interval / 2)
		if slices.Equal(duplicatesOf(a), duplicateEIDs) && slices.Equal(duplicatesOf(b), duplicateEIDs) {
			break
		}
	}
	for _, d := range []*testNode{a, b} {
		if list := duplicatesOf(d); !slices.Equal(list, duplicateEIDs) {
			t.Fatalf("%s tells of %v, want %v, after %s", d.name, list, duplicateEIDs, n.now.Sub(epoch))
		}
		d.wantCounter(counter.DuplicateEID, 2)
		for _, p := range duplicateEIDs {
			d.wantNotCached(p) // our own EIDs are not for the map-cache
		}
	}
	if p := a.DuplicateEIDs()[0]; p.RLOC != rloc("192.0.2.2") || p.Since.After(n.now.Add(-duplicates.Interval)) || !p.From.IsValid() {
		t.Errorf("%+v", p)
	}
	n.run(5 * time.Minute)
	for _, d := range []*testNode{a, b} {
		if list := duplicatesOf(d); !slices.Equal(list, duplicateEIDs) {
			t.Errorf("%s tells of %v while nothing changes", d.name, list)
		}
	}
	n.kill(b)
	n.run(10 * time.Minute)
	if list := duplicatesOf(a); len(list) > 0 {
		t.Errorf("%v have another router that is gone", list)
	}
	for kind, want := range map[NoticeKind]int{NoticeDuplicateEID: 2, NoticeDuplicateEIDEnded: 2} {
		if got := len(slices.DeleteFunc(slices.Clone(a.notices), func(n Notice) bool { return n.Kind != kind })); got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
}

// TestOwnEIDsAreAskedForInTurn, one a minute, from four minutes after the last change on.
func TestOwnEIDsAreAskedForInTurn(t *testing.T) {
	n, x1, _, _ := twoSites(t)
	n.run(duplicates.Settled - time.Second)
	if asked, _ := x1.ownAsked(); len(asked) > 0 {
		t.Errorf("%v asked for in the first minutes", asked)
	}
	n.run(20*time.Minute + time.Second)
	asked, at := x1.ownAsked()
	asked = slices.DeleteFunc(asked, func(p lisp.Prefix) bool { return p.IsHost() })
	if len(asked) < 15 || len(asked) > 21 {
		t.Fatalf("asked %d times in 20 minutes", len(asked))
	}
	for i, p := range asked {
		if p != lisp.MustParsePrefix(duplicateEIDs[i%2]) {
			t.Errorf("request %d is for %s", i, p)
		}
		if i > 0 && (at[i].Sub(at[i-1]) < duplicates.Interval || at[i].Sub(at[i-1]) > duplicates.Interval*5/4) {
			t.Errorf("%s after the one before", at[i].Sub(at[i-1]))
		}
	}
	x1.wantCounter(counter.OwnMapRequestSent, uint64(len(asked)))
	if list := duplicatesOf(x1); len(list) > 0 {
		t.Errorf("%v: the mapping system has our RLOCs", list)
	}
	changed := x1.config
	etr := *changed.ETR
	etr.Database = slices.Clone(etr.Database)
	etr.Database[0].TTLMinutes = 5
	changed.ETR = &etr
	x1.configure(changed)
	n.run(duplicates.Settled - time.Second)
	x1.wantCounter(counter.OwnMapRequestSent, uint64(len(asked)))
	n.run(duplicates.Interval)
	x1.wantCounter(counter.OwnMapRequestSent, uint64(len(asked))+1)
}

// TestNoDuplicateEID: where routers know of each other, or nothing tells of another one.
func TestNoDuplicateEID(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"merge-request": func(c *Config) { c.ETR.MapServers[0].MergeRequest = true },
		"siblings": func(c *Config) {
			c.ETR.Siblings = []SiblingConfig{{Address: netip.MustParseAddr("10.1.0.9"), Local: netip.MustParseAddr("10.1.0.1")}}
		},
		"the same locators": func(c *Config) {
			for i := range c.ETR.Database {
				c.ETR.Database[i].Locators = locators("192.0.2.1", "192.0.2.2")
			}
		},
		"no ITR": func(c *Config) { c.ITR = nil },
	} {
		t.Run(name, func(t *testing.T) {
			n, a, b := twoWithOneEID(t, change)
			n.run(30 * time.Minute)
			if list := append(duplicatesOf(a), duplicatesOf(b)...); len(list) > 0 {
				t.Errorf("told of %v", list)
			}
			if sent := a.counter(counter.OwnMapRequestSent); (name == "the same locators") != (sent > 0) {
				t.Errorf("%d Map-Requests", sent)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		n, a, b := twoWithOneEID(t, nil)
		n.lose = func(_ *testNode, p SendPacket) bool {
			m, _ := wire.Parse(p.Payload)
			_, reply := m.(*wire.MapReply)
			return reply
		}
		n.run(20 * time.Minute)
		if list := append(duplicatesOf(a), duplicatesOf(b)...); len(list) > 0 || a.counter(counter.OwnMapRequestSent) == 0 {
			t.Errorf("told of %v", list)
		}
	})
}

// askOwn gives a node answers about an EID-Prefix of its own, each to another Map-Request.
func askOwn(t *testing.T, d *testNode, answers ...[]lisp.Mapping) {
	t.Helper()
	for _, mappings := range answers {
		before := d.counter(counter.OwnMapRequestSent)
		for d.counter(counter.OwnMapRequestSent) == before {
			d.net.run(time.Second)
		}
		m := wire.MapReply{Nonce: d.duplicatesNonce(t)}
		for _, mapping := range mappings {
			m.Records = append(m.Records, wire.RecordOf(mapping))
		}
		payload, err := m.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		d.inject("192.0.2.1:4342", "192.0.2.100:4342", payload)
	}
}

// duplicatesNonce is that of the last Map-Request.
func (d *testNode) duplicatesNonce(t *testing.T) uint64 {
	t.Helper()
	requests := sentMessages[*wire.MapRequest](d)
	if len(requests) == 0 {
		t.Fatal("nothing was asked")
	}
	return requests[len(requests)-1].Nonce
}

// TestAnswersAboutAnOwnEID: two in a row without an RLOC of ours, and nothing else, make a duplicate; two in a row with one end it.
func TestAnswersAboutAnOwnEID(t *testing.T) {
	const prefix = "10.1.0.0/16"
	of := func(p string, rlocs ...string) []lisp.Mapping {
		return []lisp.Mapping{{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators(rlocs...)}}
	}
	foreign, own := of(prefix, "192.0.2.9", "2001:db8:f::9"), of(prefix, "192.0.2.9", "192.0.2.1")
	negative := []lisp.Mapping{{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 1, Action: lisp.ActionNativelyForward}}
	wider, narrower := of("10.0.0.0/8", "192.0.2.9"), append(of("10.1.1.0/24", "192.0.2.9"), own...)
	for name, c := range map[string]struct {
		answers [][]lisp.Mapping
		want    bool
	}{
		"one":                    {[][]lisp.Mapping{foreign}, false},
		"two":                    {[][]lisp.Mapping{foreign, foreign}, true},
		"not in a row":           {[][]lisp.Mapping{foreign, own, foreign}, false},
		"a negative one between": {[][]lisp.Mapping{foreign, negative, foreign}, false},
		"negative":               {[][]lisp.Mapping{negative, negative, negative}, false},
		"a covering EID-Prefix":  {[][]lisp.Mapping{wider, wider, wider}, false},
		"more-specifics":         {[][]lisp.Mapping{narrower, narrower, narrower}, false},
		"one with ours":          {[][]lisp.Mapping{foreign, foreign, own}, true},
		"two with ours":          {[][]lisp.Mapping{foreign, foreign, own, own}, false},
		"again":                  {[][]lisp.Mapping{foreign, foreign, own, own, foreign, foreign}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefix), "192.0.2.1")
			askOwn(t, x, c.answers...)
			if got := len(x.DuplicateEIDs()) > 0; got != c.want {
				t.Errorf("a duplicate: %t, want %t", got, c.want)
			}
		})
	}
}

// TestOwnEIDWithSkippedLocators: one of those that this router cannot use may be ours.
func TestOwnEIDWithSkippedLocators(t *testing.T) {
	const prefix = "10.1.0.0/16"
	x := newNetwork(t).add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefix), "192.0.2.1")
	for range 3 {
		before := x.counter(counter.OwnMapRequestSent)
		for x.counter(counter.OwnMapRequestSent) == before {
			x.net.run(time.Second)
		}
		p := lisp.MustParsePrefix(prefix)
		m := message.MapReply{Nonce: x.duplicatesNonce(t), Mappings: []lisp.Mapping{{Prefix: p, TTLMinutes: 10, Locators: locators("192.0.2.9")}}, Skipped: []message.SkippedLocators{{Prefix: p}}}
		if !x.isAboutOwn(&m) || x.isAboutOwn(&m) {
			t.Error("the answer is not taken once")
		}
	}
	if len(x.DuplicateEIDs()) > 0 {
		t.Error("a duplicate")
	}
}

// TestAChangeEndsADuplicate: what was answered about the mappings before is worth nothing.
func TestAChangeEndsADuplicate(t *testing.T) {
	const prefix = "10.1.0.0/16"
	foreign := []lisp.Mapping{{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 10, Locators: locators("192.0.2.9")}}
	n := newNetwork(t)
	x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefix), "192.0.2.1")
	askOwn(t, x, foreign, foreign)
	if len(x.DuplicateEIDs()) != 1 {
		t.Fatal("no duplicate")
	}
	same := x.config
	same.SiteID++
	x.configure(same)
	if len(x.DuplicateEIDs()) != 1 {
		t.Error("a reload that changes no mapping ended it")
	}
	merging := same
	etr := *merging.ETR
	etr.MapServers = slices.Clone(etr.MapServers)
	etr.MapServers[0].MergeRequest = true
	merging.ETR = &etr
	x.configure(merging)
	if len(x.DuplicateEIDs()) != 0 {
		t.Error("merge-request did not end it")
	}
	x.configure(same)
	askOwn(t, x, foreign, foreign)
	moved := same
	etr2 := *same.ETR
	etr2.Database = []DatabaseMapping{{Prefix: lisp.MustParsePrefix(prefix), Locators: locators("192.0.2.1"), TTLMinutes: 7}}
	moved.ETR = &etr2
	x.configure(moved)
	if len(x.DuplicateEIDs()) != 0 {
		t.Error("a change of the mapping did not end it")
	}
	changed := n.now
	askOwn(t, x, foreign)
	if wait := n.now.Sub(changed); wait < duplicates.Settled {
		t.Errorf("asked %s after the change", wait)
	}
}

// TestDuplicatesAreBounded: another router has all of very many EID-Prefixes.
func TestDuplicatesAreBounded(t *testing.T) {
	var prefixes []string
	for i := range 2 * duplicates.Limit {
		prefixes = append(prefixes, fmt.Sprintf("10.1.%d.0/24", i))
	}
	n := newNetwork(t)
	x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefixes...), "192.0.2.1")
	for range 8 * duplicates.Limit {
		before := x.counter(counter.OwnMapRequestSent)
		for x.counter(counter.OwnMapRequestSent) == before {
			n.run(time.Second)
		}
		asked, _ := x.ownAsked()
		x.sent, x.sentAt = x.sent[max(len(x.sent)-256, 0):], x.sentAt[max(len(x.sentAt)-256, 0):]
		payload, err := (&wire.MapReply{Nonce: x.duplicatesNonce(t), Records: []wire.Record{
			wire.RecordOf(lisp.Mapping{Prefix: asked[len(asked)-1], TTLMinutes: 10, Locators: locators("192.0.2.9")}),
		}}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		x.inject("192.0.2.1:4342", "192.0.2.100:4342", payload)
	}
	if got := len(x.DuplicateEIDs()); got != duplicates.Limit {
		t.Errorf("%d are known, want %d", got, duplicates.Limit)
	}
}

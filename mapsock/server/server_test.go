// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// packetTo is a packet of a host of 10.1.0.0/24.
func packetTo(destination string) []byte {
	packet := []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 10}
	packet = append(packet, netip.MustParseAddr(destination).AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(packet); i += 2 {
		sum += uint32(packet[i])<<8 | uint32(packet[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	packet[10], packet[11] = byte(^sum>>8), byte(^sum)
	return packet
}

func TestEchoGoesToAll(t *testing.T) {
	s := serve(t, Options{})
	sender, other := s.monitor(t, mapsock.DefaultHearing), s.monitor(t, mapsock.DefaultHearing)
	m := ask(t, 99, to("10.2.0.0/24", "192.0.2.2"))
	m.PID = 1 // who I am is not mine to say
	send(t, sender, m)
	for name, c := range map[*mapsock.Monitor]bool{sender: true, other: false} {
		got := next(t, name, mapsock.TypeAdd)
		if got.Seq != 99 || got.PID != int32(os.Getpid()) || got.Errno != 0 || got.Flags&mapsock.FlagDone == 0 || (got.Flags&mapsock.FlagOwn != 0) != c {
			t.Errorf("echo %s", got)
		}
		if got.Prefix.String() != "10.2.0.0/24" || len(got.Locators) != 1 || got.Locators[0].RLOC != peerRLOC || !got.Has(mapsock.AttributeExpires) {
			t.Errorf("the echo is not what was asked: %s", got)
		}
	}
	send(t, sender, ask(t, 100, dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("10.3.0.0/24")}))
	for _, c := range []*mapsock.Monitor{sender, other} {
		got := next(t, c, mapsock.TypeDelete)
		if got.Seq != 100 || got.Errno != unix.ESRCH || got.Flags&mapsock.FlagDone != 0 || !strings.Contains(got.ErrorText, "10.3.0.0/24") {
			t.Errorf("echo of a failure %s", got)
		}
	}
}

func TestNotHearingOneself(t *testing.T) {
	s := serve(t, Options{})
	c := s.monitor(t, mapsock.HearEvents)
	send(t, c, ask(t, 1, to("10.2.0.0/24", "192.0.2.2")))
	send(t, c, ask(t, 2, dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("10.3.0.0/24")}))
	send(t, c, &mapsock.Message{Type: mapsock.TypeGetCounters, Seq: 3})
	if got := next(t, c, mapsock.TypeDelete); got.Seq != 2 || got.Errno != unix.ESRCH {
		t.Errorf("%s, want what failed", got)
	}
	if got := next(t, c, mapsock.TypeGetCounters); got.Seq != 3 || got.Flags&mapsock.FlagDone == 0 {
		t.Errorf("%s, want the answer to a question", got)
	}
	if _, ok := s.engine.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); !ok {
		t.Error("the mapping is not there")
	}
}

func TestSeveralMessagesInADatagram(t *testing.T) {
	s := serve(t, Options{})
	c, raw := s.connect(t, mapsock.DefaultHearing)
	get := &mapsock.Message{Type: mapsock.TypeGet, Seq: 4}
	get.SetPrefix(lisp.MustParsePrefix("10.2.0.0/24"))
	unknown := &mapsock.Message{Type: 77, Seq: 5}
	var b []byte
	for _, m := range []*mapsock.Message{
		ask(t, 1, to("10.2.0.0/24", "192.0.2.2")), ask(t, 2, own("10.1.0.0/24")), ask(t, 3, dataplane.DeleteMapping{}), get, unknown,
		{Type: mapsock.TypeGetSettings, Seq: 6},
	} {
		b = mustAppend(t, b, m)
	}
	older := mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeFlush, Seq: 7})
	older[2] = 1 // the version
	b = append(b, older...)
	b = mustAppend(t, b, ask(t, 8, dataplane.Flush{MapCache: true}))
	if _, err := raw.Write(b); err != nil {
		t.Fatal(err)
	}
	for i, want := range []unix.Errno{0, 0, unix.ESRCH, 0, unix.EOPNOTSUPP, 0, unix.EPROTONOSUPPORT, 0} {
		got, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got.Seq != uint32(i+1) || got.Errno != want {
			t.Errorf("answer %d: %s, want errno %d", i+1, got, want)
		}
	}
}

func TestAddChangeDelete(t *testing.T) {
	s := serve(t, Options{})
	c := s.monitor(t, mapsock.HearOwn)
	prefix := lisp.MustParsePrefix("10.2.0.0/24")
	seq := uint32(0)
	do := func(kind mapsock.Type, flags mapsock.Flags, change func(*mapsock.Message), want unix.Errno) *mapsock.Message {
		t.Helper()
		seq++
		m := &mapsock.Message{Type: kind, Flags: flags, Seq: seq}
		m.SetPrefix(prefix)
		if change != nil {
			change(m)
		}
		send(t, c, m)
		got := next(t, c, kind)
		if got.Seq != seq || got.Errno != want {
			t.Fatalf("%s, want errno %d", got, want)
		}
		return got
	}
	with := func(rloc string) func(*mapsock.Message) {
		return func(m *mapsock.Message) { m.Locators = []mapsock.Locator{{Locator: locator(rloc)}} }
	}
	entry := func() dataplane.MapCacheEntry {
		e, _ := s.engine.Mapping(prefix)
		return e
	}

	do(mapsock.TypeChange, 0, with("192.0.2.2"), unix.ESRCH)
	do(mapsock.TypeAdd, 0, nil, unix.EINVAL) // no locators, not NEGATIVE
	do(mapsock.TypeAdd, mapsock.FlagNegative, with("192.0.2.2"), unix.EINVAL)
	do(mapsock.TypeAdd, mapsock.FlagStatusBits, with("192.0.2.2"), unix.EOPNOTSUPP)
	do(mapsock.TypeAdd, mapsock.FlagExpired, with("192.0.2.2"), unix.EINVAL)
	do(mapsock.TypeAdd, 0, with("192.0.2.2"), 0)
	e := entry()
	if e.Static || e.Mapping.TTLMinutes != lisp.DefaultTTLMinutes || e.ExpiresAt.Sub(e.CreatedAt) != 24*time.Hour || time.Since(e.CreatedAt) > time.Minute {
		t.Errorf("an add without times makes %+v", e)
	}
	do(mapsock.TypeAdd, 0, with("192.0.2.3"), unix.EEXIST)
	do(mapsock.TypeAdd, mapsock.FlagReplace, with("192.0.2.3"), 0)
	if got := entry().Mapping.Locators[0].RLOC.String(); got != "192.0.2.3" {
		t.Errorf("replaced by %s", got)
	}
	do(mapsock.TypeChange, 0, func(m *mapsock.Message) { m.TTLMinutes = 10; m.Mark(mapsock.AttributeTTL) }, 0)
	if e = entry(); len(e.Mapping.Locators) != 1 || e.ExpiresAt.Sub(e.CreatedAt) != 10*time.Minute {
		t.Errorf("a change of the TTL makes %+v", e)
	}
	do(mapsock.TypeChange, mapsock.FlagStatic, nil, 0)
	if e = entry(); !e.Static || !e.ExpiresAt.IsZero() || len(e.Mapping.Locators) != 1 {
		t.Errorf("a change to static makes %+v", e)
	}
	do(mapsock.TypeChange, mapsock.FlagNegative, func(m *mapsock.Message) { m.Action = lisp.ActionDrop; m.Mark(mapsock.AttributeAction) }, 0)
	if e = entry(); !e.Mapping.Negative() || e.Mapping.Action != lisp.ActionDrop || !e.Static {
		t.Errorf("a change to negative makes %+v", e)
	}
	got := do(mapsock.TypeGet, 0, nil, 0)
	if got.Flags&(mapsock.FlagNegative|mapsock.FlagStatic|mapsock.FlagUp) != mapsock.FlagNegative|mapsock.FlagStatic || got.Action != lisp.ActionDrop {
		t.Errorf("get %s", got)
	}
	do(mapsock.TypeDelete, 0, nil, 0)
	do(mapsock.TypeDelete, 0, nil, unix.ESRCH)
	do(mapsock.TypeDelete, mapsock.FlagAll, nil, unix.ESRCH)
	do(mapsock.TypeGet, mapsock.FlagAll, nil, unix.ESRCH)
}

func TestDatabaseNeedsALocalLocator(t *testing.T) {
	s := serve(t, Options{})
	c := s.monitor(t, mapsock.HearOwn)
	foreign := own("10.1.0.0/24")
	foreign.Entry.Locators = lisp.LocatorSet{locator("192.0.2.9")}
	send(t, c, ask(t, 1, foreign))
	if got := next(t, c, mapsock.TypeAdd); got.Errno != unix.EADDRNOTAVAIL || !errors.Is(got.Err(), dataplane.ErrNoLocalLocator) {
		t.Errorf("%s, want EADDRNOTAVAIL", got)
	}
	send(t, c, ask(t, 2, own("10.1.0.0/24")))
	next(t, c, mapsock.TypeAdd)
	send(t, c, &mapsock.Message{Type: mapsock.TypeGet, Flags: mapsock.FlagAll, HasEID: true, Prefix: lisp.MustParsePrefix("10.1.0.9")})
	got := next(t, c, mapsock.TypeGet)
	if got.Flags&mapsock.FlagDatabase == 0 || got.Prefix.String() != "10.1.0.0/24" || !got.Locators[0].Interface {
		t.Errorf("%s: want the Database entry, its locator an address of this system", got)
	}
}

func TestBothTables(t *testing.T) {
	s := serve(t, Options{})
	c := s.monitor(t, mapsock.HearOwn)
	m := &mapsock.Message{Type: mapsock.TypeAdd, Flags: mapsock.FlagAll, Seq: 1, Locators: []mapsock.Locator{{Locator: locator(ownRLOC.String())}}}
	m.SetPrefix(lisp.MustParsePrefix("10.1.0.0/24"))
	there := func() (cache, database bool) {
		_, cache = s.engine.Mapping(m.Prefix)
		_, database = databaseEntry(s.engine, m.Prefix)
		return cache, database
	}
	send(t, c, m)
	if got := next(t, c, mapsock.TypeAdd); got.Errno != 0 {
		t.Fatal(got)
	}
	if cache, database := there(); !cache || !database {
		t.Errorf("in the map-cache: %v, in the Database: %v", cache, database)
	}
	send(t, c, &mapsock.Message{Type: mapsock.TypeDelete, HasEID: true, HasMask: true, Prefix: m.Prefix})
	next(t, c, mapsock.TypeDelete)
	send(t, c, m) // is in the Database still
	if got := next(t, c, mapsock.TypeAdd); got.Errno != unix.EEXIST {
		t.Errorf("%s, want EEXIST", got)
	}
	if cache, _ := there(); cache {
		t.Error("an add that failed left half of itself")
	}
	send(t, c, &mapsock.Message{Type: mapsock.TypeDelete, Flags: mapsock.FlagAll, HasEID: true, HasMask: true, Prefix: m.Prefix})
	if got := next(t, c, mapsock.TypeDelete); got.Errno != 0 {
		t.Errorf("%s, want what one table had deleted", got)
	}
	send(t, c, &mapsock.Message{Type: mapsock.TypeFlush, Flags: mapsock.FlagAll})
	next(t, c, mapsock.TypeFlush)
}

func TestGetTakesTheLongestMatch(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, to("10.0.0.0/8", "192.0.2.2"), to("10.2.0.0/16", "192.0.2.3"), to("[9]10.2.0.0/24", "192.0.2.4"), own("10.2.3.0/24"))
	c := s.monitor(t, mapsock.HearOwn)
	for _, test := range []struct {
		eid   string
		mask  bool
		flags mapsock.Flags
		want  string
	}{
		{"10.2.1.1", false, 0, "10.2.0.0/16"}, {"10.9.9.9", false, 0, "10.0.0.0/8"}, {"11.0.0.1", false, 0, ""},
		{"10.2.1.1", true, 0, ""}, {"10.2.0.0/16", true, 0, "10.2.0.0/16"}, {"[9]10.2.0.7", false, 0, "[9]10.2.0.0/24"},
		{"[9]10.2.1.7", false, 0, ""}, {"10.2.3.4", false, 0, "10.2.0.0/16"}, {"10.2.3.4", false, mapsock.FlagAll, "10.2.3.0/24"},
		{"10.2.3.4", false, mapsock.FlagDatabase, "10.2.3.0/24"}, {"10.2.4.4", false, mapsock.FlagAll, "10.2.0.0/16"},
	} {
		p := lisp.MustParsePrefix(test.eid)
		send(t, c, &mapsock.Message{Type: mapsock.TypeGet, Flags: test.flags, HasEID: true, HasMask: test.mask, Prefix: p, Instance: p.Instance()})
		got := next(t, c, mapsock.TypeGet)
		text := got.Prefix.String()
		if got.Errno == unix.ESRCH {
			text = ""
		}
		if text != test.want {
			t.Errorf("get %s (mask %v, flags %s) gives %q, want %q", test.eid, test.mask, test.flags, text, test.want)
		}
	}
}

func TestMissAndExpiryAreTold(t *testing.T) {
	s := serve(t, Options{})
	control, listener := s.dial(t), s.monitor(t, mapsock.HearEvents|mapsock.HearOperations)
	apply(t, control, own("10.1.0.0/24"))
	next(t, listener, mapsock.TypeAdd)
	s.engine.Send("site0", packetTo("10.2.0.1"))
	got := next(t, listener, mapsock.TypeMissEID)
	if got.Prefix.String() != "10.2.0.1/32" || got.HasMask || got.Source.String() != "10.1.0.10" || got.Interface != "site0" || got.PID != 0 {
		t.Errorf("miss %s by %s", got, got.Interface)
	}
	if miss := <-control.Events(); miss.(dataplane.Miss).Destination.String() != "10.2.0.1" {
		t.Errorf("the client's event is %+v", miss)
	}
	old := to("10.2.0.0/24", "192.0.2.2")
	old.Entry.ExpiresAt = time.Now().Add(-time.Second)
	apply(t, control, old, to("10.3.0.0/24", "192.0.2.2"))
	apply(t, control, dataplane.DeleteMapping{Prefix: old.Entry.Mapping.Prefix}, dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("10.3.0.0/24")})
	next(t, listener, mapsock.TypeAdd)
	next(t, listener, mapsock.TypeAdd)
	if got := next(t, listener, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired == 0 {
		t.Errorf("%s, want EXPIRED", got)
	}
	if got := next(t, listener, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired != 0 {
		t.Errorf("%s, want no EXPIRED", got)
	}
}

// What the process that serves does itself is told as well.
func TestOwnOperationsAreTold(t *testing.T) {
	s := serve(t, Options{})
	listener := s.monitor(t, mapsock.DefaultHearing)
	plane := s.server.Plane()
	old := to("10.2.0.0/24", "192.0.2.2")
	old.Entry.ExpiresAt = time.Now().Add(-time.Second)
	apply(t, plane, old, own("10.1.0.0/24"))
	next(t, listener, mapsock.TypeAdd)
	if got := next(t, listener, mapsock.TypeAdd); got.Flags&(mapsock.FlagDone|mapsock.FlagDatabase|mapsock.FlagOwn) != mapsock.FlagDone|mapsock.FlagDatabase || got.PID != int32(os.Getpid()) || got.Seq != 0 {
		t.Error(got)
	}
	remove := dataplane.DeleteMapping{Prefix: old.Entry.Mapping.Prefix}
	plane.Apply(remove, remove)
	if got := next(t, listener, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired == 0 || got.Errno != 0 {
		t.Error(got)
	}
	if got := next(t, listener, mapsock.TypeDelete); got.Errno != unix.ESRCH {
		t.Error(got)
	}
	if expired, ok := (<-plane.Events()).(dataplane.Expired); !ok || expired.Prefix != old.Entry.Mapping.Prefix {
		t.Errorf("event %+v", expired)
	}
	s.engine.Send("site0", packetTo("10.7.0.1"))
	next(t, listener, mapsock.TypeMissEID)
	if miss, ok := (<-plane.Events()).(dataplane.Miss); !ok || miss.Destination.String() != "10.7.0.1" {
		t.Errorf("event %+v", miss)
	}
}

func TestReadsAreToldToWhoAsks(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, to("10.2.0.0/24", "192.0.2.2"))
	asker, curious := s.dial(t), s.monitor(t, mapsock.HearReads|mapsock.HearOperations)
	asker.Mapping(lisp.MustParsePrefix("10.2.0.0/24"))
	if got := next(t, curious, mapsock.TypeGet); got.Flags&mapsock.FlagOwn != 0 || got.Prefix.String() != "10.2.0.0/24" {
		t.Error(got)
	}
}

// All listeners hear the operations of several writers in one order, which is that in
// which the engine carried them out.
func TestAllHearTheSameOrder(t *testing.T) {
	s := serve(t, Options{})
	const listeners, writers, each = 5, 3, 200
	var monitors []*mapsock.Monitor
	for range listeners {
		monitors = append(monitors, s.monitor(t, mapsock.HearOperations))
	}
	var group sync.WaitGroup
	prefix := "10.2.0.0/24"
	for w := range writers {
		c := s.dial(t)
		group.Go(func() {
			for i := range each {
				c.Apply(to(prefix, fmt.Sprintf("192.0.%d.%d", 2+w, i+1)))
			}
		})
	}
	var orders [listeners][]string
	for i, m := range monitors {
		for range writers * each {
			orders[i] = append(orders[i], next(t, m, mapsock.TypeAdd).Locators[0].RLOC.String())
		}
	}
	group.Wait()
	for i := range orders {
		if !slices.Equal(orders[i], orders[0]) {
			t.Errorf("listener %d heard another order than listener 0", i)
		}
	}
	last, _ := s.engine.Mapping(lisp.MustParsePrefix(prefix))
	if got := last.Mapping.Locators[0].RLOC.String(); got != orders[0][len(orders[0])-1] {
		t.Errorf("the engine has %s, heard last was %s", got, orders[0][len(orders[0])-1])
	}
}

// A dump on a connection leaves it free for other requests, and is whole.
func TestDumpBesideOtherRequests(t *testing.T) {
	s := serve(t, Options{})
	const entries = 20000
	fill(t, s, entries)
	c := s.monitor(t, mapsock.HearOwn)
	send(t, c, &mapsock.Message{Type: mapsock.TypeDump, Seq: 1})
	send(t, c, &mapsock.Message{Type: mapsock.TypeDump, Seq: 2})
	send(t, c, ask(t, 3, to("11.0.0.0/8", "192.0.2.2")))
	seen, answered, busy := 0, false, false
	for {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Seq == 3:
			answered = m.Flags&mapsock.FlagDone != 0
		case m.Seq == 2:
			busy = m.Errno == unix.EBUSY
		case m.Flags&mapsock.FlagMore != 0:
			seen++
		case m.Count != uint64(seen) || seen < entries || m.Flags&mapsock.FlagDone == 0:
			t.Fatalf("the dump of %d entries ends with %d: %s", seen, m.Count, m)
		default:
			if !answered || !busy {
				t.Errorf("while a dump ran: add answered %v, second dump busy %v", answered, busy)
			}
			return
		}
	}
}

func fill(t testing.TB, s *served, entries int) {
	t.Helper()
	var operations []dataplane.Operation
	for i := range entries {
		operations = append(operations, to(fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255), "192.0.2.2"))
	}
	apply(t, s.engine, operations...)
}

func TestDumpOfAnInstance(t *testing.T) {
	s := serve(t, Options{})
	apply(t, s.engine, to("10.2.0.0/24", "192.0.2.2"), to("[7]10.2.0.0/24", "192.0.2.2"), own("[7]10.1.0.0/24"))
	c := s.monitor(t, mapsock.HearOwn)
	m := &mapsock.Message{Type: mapsock.TypeDump, Flags: mapsock.FlagAll, Seq: 1, Instance: 7}
	m.Mark(mapsock.AttributeInstance)
	send(t, c, m)
	var got []string
	for m := next(t, c, mapsock.TypeDump); m.Flags&mapsock.FlagMore != 0; m = next(t, c, mapsock.TypeDump) {
		got = append(got, m.Prefix.String())
	}
	if want := []string{"[7]10.1.0.0/24", "[7]10.2.0.0/24"}; !slices.Equal(got, want) {
		t.Errorf("dump of Instance-ID 7: %v, want %v", got, want)
	}
}

func TestDetachEndsAll(t *testing.T) {
	s := serve(t, Options{})
	c, other := s.dial(t), s.monitor(t, mapsock.DefaultHearing)
	apply(t, c, to("10.2.0.0/24", "192.0.2.2"))
	next(t, other, mapsock.TypeAdd)
	if err := c.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range s.engine.Mappings() {
		t.Error("a mapping is left")
	}
	if got := next(t, other, mapsock.TypeDetach); got.Flags != mapsock.FlagDone {
		t.Error(got)
	}
	if m, err := other.Next(); err == nil {
		t.Errorf("%s, want the end", m)
	}
}

// A control plane that goes leaves everything in place for the next.
func TestControlPlaneIsExchanged(t *testing.T) {
	s := serve(t, Options{})
	first := s.dial(t)
	settings := s.engine.Settings()
	settings.MissPolicy = dataplane.MissDrop
	apply(t, first, dataplane.SetSettings{Settings: settings}, to("10.2.0.0/24", "192.0.2.2"), own("10.1.0.0/24"),
		dataplane.PutLocatorState{RLOC: peerRLOC, State: dataplane.LocatorDown})
	_ = first.Close()
	second := s.dial(t)
	if got := second.Settings(); got.MissPolicy != dataplane.MissDrop || len(got.Interfaces) != 2 {
		t.Errorf("settings %+v", got)
	}
	if _, ok := second.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); !ok {
		t.Error("the mapping is gone")
	}
	for entry, err := range second.DumpDatabase() {
		if err != nil || entry.Prefix.String() != "10.1.0.0/24" {
			t.Errorf("%v %v", entry, err)
		}
	}
	for path, state := range second.LocatorStates() {
		if path != lisp.PathTo(peerRLOC) || state != dataplane.LocatorDown {
			t.Errorf("%s is %s", path, state)
		}
	}
	for range first.Events() { // until its connection has ended
	}
	if err := errors.Join(first.Apply(to("10.3.0.0/24", "192.0.2.2"))...); !errors.Is(err, dataplane.ErrClosed) {
		t.Errorf("the first has %v", err)
	}
}

// More operations than a datagram holds, and one that no message holds.
func TestApplyOfMany(t *testing.T) {
	s := serve(t, Options{})
	c := s.dial(t)
	var operations []dataplane.Operation
	for i := range 5000 {
		operations = append(operations, to(fmt.Sprintf("10.2.%d.%d/32", i>>8, i&255), "192.0.2.2", "192.0.2.3"))
	}
	broken := to("10.9.0.0/16", "192.0.2.2")
	broken.Entry.Mapping.Locators = make(lisp.LocatorSet, 40)
	operations[2500] = broken
	operations[4000] = dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("12.0.0.0/8")}
	operations[4001] = dataplane.Flush{}
	results := c.Apply(operations...)
	if len(results) != len(operations) {
		t.Fatalf("%d results of %d", len(results), len(operations))
	}
	for i, err := range results {
		want := map[int]error{2500: dataplane.ErrInvalid, 4000: dataplane.ErrNotFound}[i]
		if !errors.Is(err, want) {
			t.Errorf("operation %d: %v, want %v", i, err, want)
		}
	}
	n := 0
	for _, err := range c.DumpMappings() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 4997 {
		t.Errorf("%d mappings", n)
	}
}

// Who goes ahead of its answers gets all of them, in order, and so does who listens; the
// end behind the last datagram is noticed.
func TestClientGoesAhead(t *testing.T) {
	s := serve(t, Options{})
	c, raw := s.connect(t, mapsock.HearOwn)
	listener := s.monitor(t, mapsock.HearOperations)
	const adds = 20 * datagramsTogether
	for i := range uint32(adds) {
		send(t, c, ask(t, i, to(fmt.Sprintf("10.2.%d.%d/32", i>>8, i&255), "192.0.2.2")))
	}
	for _, m := range []*mapsock.Monitor{c, listener} {
		for i := range uint32(adds) {
			got, err := m.Next()
			if err != nil || got.Type != mapsock.TypeAdd || got.Seq != i || got.Errno != 0 {
				t.Fatalf("the answer to add %d: %v, %v", i, got, err)
			}
		}
	}
	send(t, c, ask(t, adds, to("10.3.0.0/24", "192.0.2.2")))
	if _, err := raw.Write(nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Next(); err != nil || got.Seq != adds {
		t.Errorf("the last answer: %v, %v", got, err)
	}
	if got, err := c.Next(); err == nil {
		t.Errorf("behind the end: %v", got)
	}
}

// TestForeignChanges: what clients change is remembered until the process itself sets it, or it is undone, and so many at most.
func TestForeignChanges(t *testing.T) {
	s := serve(t, Options{})
	own := s.server.Plane()
	client := s.dial(t)
	entry := func(i int) dataplane.MapCacheEntry {
		p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
		return dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: p, Action: lisp.ActionDrop, TTLMinutes: 1}, CreatedAt: time.Now()}
	}
	changes := func() (int, uint64) {
		list, more := own.(dataplane.ForeignReporter).ForeignChanges()
		return len(list), more
	}
	own.Apply(dataplane.PutMapping{Entry: entry(0)})
	if n, more := changes(); n != 0 || more != 0 {
		t.Errorf("own changes are foreign: %d, %d", n, more)
	}
	for i := range maxForeign + 3 {
		if errs := client.Apply(dataplane.PutMapping{Entry: entry(i)}); errs != nil {
			t.Fatal(errs)
		}
	}
	if n, more := changes(); n != maxForeign || more != 2 { // the first was as the process has set it
		t.Errorf("%d, and %d more", n, more)
	}
	drop, other := entry(0), entry(0)
	other.Mapping.Action = lisp.ActionNativelyForward
	for _, c := range []struct {
		what string
		do   dataplane.Operation
		want int
	}{
		{"what a client had added is taken out", dataplane.DeleteMapping{Prefix: entry(7).Mapping.Prefix}, maxForeign - 1},
		{"what the process has set is changed", dataplane.PutMapping{Entry: other}, maxForeign},
		{"and taken out", dataplane.DeleteMapping{Prefix: drop.Mapping.Prefix}, maxForeign},
		{"and set again", dataplane.PutMapping{Entry: drop}, maxForeign - 1},
	} {
		if errs := client.Apply(c.do); errs != nil {
			t.Fatal(errs)
		}
		if n, _ := changes(); n != c.want {
			t.Errorf("%s: %d, want %d", c.what, n, c.want)
		}
	}
	own.Apply(dataplane.PutMapping{Entry: entry(1)}, dataplane.DeleteMapping{Prefix: entry(2).Mapping.Prefix})
	client.Apply(dataplane.DeleteMapping{Prefix: entry(5).Mapping.Prefix})
	if n, _ := changes(); n != maxForeign-4 {
		t.Errorf("%d after two were set by the process", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

// These tests hold how counters of processors become one.

package kernel

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

func TestUsageIsOfAllProcessors(t *testing.T) {
	s := &mapStore{records: make([]lisptcLispMapping, 2), unsettled: make([]lisptcLispPending, 2), usage: []lisptcLispMappingCounters{
		{Packets: 1, Octets: 10}, {Packets: 2, Octets: 20}, // processor 0
		{Packets: 4, Octets: 40}, {Packets: 8, Octets: 80}, // processor 1
	}}
	s.records[0].LastUsed = 5
	if got := s.usageOf(0); got != (usage{5, 50, 5}) {
		t.Errorf("entry 0: %+v", got)
	}
	s.clearUsage(0)
	if got := s.usageOf(0); got.packets != 0 || got.octets != 0 {
		t.Errorf("entry 0, cleared: %+v", got)
	}
	if got := s.usageOf(1); got != (usage{10, 100, 0}) {
		t.Errorf("entry 1: %+v", got)
	}
}

func TestSizesOfMaps(t *testing.T) {
	sizes, err := mapLimits{}.entries(4)
	if err != nil || sizes[lisptcMapMappings] != DefaultMappingLimit || sizes[lisptcMapMappingCounters] != 4*DefaultMappingLimit {
		t.Errorf("by default %v, %v", sizes, err)
	}
	if _, err := (mapLimits{mappings: math.MaxUint32 / 3}).entries(4); err == nil {
		t.Error("more counters than an array holds are taken")
	}
	for mappings, want := range map[int]uint32{1: 257, 20000: 20256, 1 << 16: 1<<16 + 256, 1 << 24: 1<<16 + 522240 + 256} {
		sizes, err := mapLimits{mappings: mappings}.entries(4)
		if err != nil || sizes[lisptcMapLocatorSets] != want {
			t.Errorf("%d locator-sets beside %d mappings, want %d; %v", sizes[lisptcMapLocatorSets], mappings, want, err)
		}
	}
	if sizes, err := (mapLimits{mappings: 20000, locatorSets: 5}).entries(4); err != nil || sizes[lisptcMapLocatorSets] != 5 {
		t.Errorf("5 locator-sets were asked for: %v, %v", sizes, err)
	}
}

// count does as programs do with a packet: it is pending until there are as many as fit.
func (s *mapStore) count(processor int, index, octets uint32) {
	p := &s.unsettled[processor]
	atomic.StoreUint64(&p.Items[p.Next], uint64(index)<<32|uint64(octets))
	if p.Next++; int(p.Next) < len(p.Items) {
		return
	}
	atomic.AddUint32(&p.Sequence, 1)
	for i := range p.Items {
		if item := atomic.SwapUint64(&p.Items[i], 0); item != 0 {
			counted := &s.usage[processor*len(s.records)+int(item>>32)]
			atomic.AddUint64(&counted.Packets, 1)
			atomic.AddUint64(&counted.Octets, uint64(uint32(item)))
		}
	}
	p.Next = 0
	atomic.AddUint32(&p.Sequence, 1)
}

func pendingStore() *mapStore {
	return &mapStore{records: make([]lisptcLispMapping, 2), unsettled: make([]lisptcLispPending, 2), usage: make([]lisptcLispMappingCounters, 4)}
}

func TestPendingCountsAreUsage(t *testing.T) {
	s := pendingStore()
	s.unsettled[1].Tick, s.records[1].LastUsed = 7, 5
	for range 20 {
		s.count(1, 1, 100)
	}
	s.count(1, 0, 50)
	if got := s.usageOf(1); got != (usage{20, 2000, 7}) {
		t.Errorf("20 packets are %+v", got)
	}
	s.clearUsage(1)
	for range 15 {
		s.count(1, 0, 50)
	}
	if got := s.usageOf(1); got.packets != 0 || got.octets != 0 {
		t.Errorf("cleared while some were pending: %+v", got)
	}
	if got := s.usageOf(0); got.packets != 16 || got.octets != 800 {
		t.Errorf("another entry's: %+v, want 16 packets", got)
	}
}

// Whoever reads while a processor counts finds every packet once.
func TestPendingCountsAreReadOnce(t *testing.T) {
	const packets = 100000
	s := pendingStore()
	var begun, done atomic.Uint64
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for range packets {
			begun.Add(1)
			s.count(0, 1, 10)
			done.Add(1)
			if done.Load()%5 == 0 {
				s.count(0, 0, 10)
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-finished:
			reading = false
		default:
		}
		least := done.Load()
		got := s.usageOf(1)
		if most := begun.Load(); got.packets < least || got.packets > most || got.octets != 10*got.packets {
			t.Fatalf("%+v, want %d to %d packets", got, least, most)
		}
	}
	if got := s.usageOf(1); got.packets != packets {
		t.Errorf("%d packets in the end, want %d", got.packets, packets)
	}
}

// Clearing while a processor adds up leaves nothing of the index, and all of others.
func TestPendingCountsAreCleared(t *testing.T) {
	for range 300 {
		s := pendingStore()
		for range 9 {
			s.count(0, 1, 10)
		}
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for range 40 {
				s.count(0, 0, 10)
			}
		}()
		s.clearUsage(1)
		<-finished
		if gone, other := s.usageOf(1), s.usageOf(0); gone.packets != 0 || gone.octets != 0 || other.packets != 40 {
			t.Fatalf("cleared %+v, another %+v", gone, other)
		}
	}
}

func TestPendingCountsAreTakenOver(t *testing.T) {
	s := pendingStore()
	s.records[1] = lisptcLispMapping{Flags: flagValid, LastUsed: 3}
	list := lisptcLispPending{Tick: 9}
	list.Items[0], list.Items[3], list.Items[4], list.Items[5] = 1<<32|70, 1<<32|30, 5<<32|1, 0<<32|1 // of no entry, and of one that is gone
	s.settle(1, &list)
	if got := s.usageOf(1); got != (usage{2, 100, 9}) || s.usageOf(0) != (usage{}) {
		t.Errorf("%+v and %+v", got, s.usageOf(0))
	}
}

// Ticks wrap around when a machine runs for four and a half years: what was used after that was used later.
func TestUseAfterTicksWrappedAround(t *testing.T) {
	const wrapped = uint64(1) << 32
	for _, c := range []struct {
		now  uint64
		tick uint32
		want uint64
	}{
		{100, 0, 0}, {100, 7, 7}, {100, 101, 101}, {100, 1 << 31, 1 << 31},
		{wrapped - 1, 1 << 25, 1 << 25}, {wrapped - 1, 1<<32 - 9, wrapped - 9}, {wrapped - 1, 2, wrapped + 2},
		{wrapped + 5, 3, wrapped + 3}, {wrapped + 5, 6, wrapped + 6}, {wrapped + 5, 1<<32 - 9, wrapped - 9}, {wrapped + 5, 0, 0},
		{3*wrapped - 1, 4, 3*wrapped + 4},
	} {
		if got := (usage{lastUsed: c.tick}).nanoseconds(c.now<<lastUsedShift + 5); got != c.want<<lastUsedShift {
			t.Errorf("in tick %d, last used in tick %d: %d, want %d", c.now, c.tick, got>>lastUsedShift, c.want)
		}
	}
	s := pendingStore()
	s.records[1] = lisptcLispMapping{Flags: flagValid, LastUsed: math.MaxUint32 - 1}
	list := lisptcLispPending{Tick: 3}
	list.Items[0] = 1<<32 | 70
	s.settle(0, &list)
	if got := s.usageOf(1).lastUsed; got != 3 {
		t.Errorf("taken over: last used in tick %d, want 3", got)
	}
	s.unsettled[1].Tick = math.MaxUint32
	s.count(1, 1, 100)
	if got := s.usageOf(1).lastUsed; got != 3 {
		t.Errorf("pending on a processor that rested: last used in tick %d, want 3", got)
	}
	s.unsettled[1].Tick = 5
	if got := s.usageOf(1).lastUsed; got != 5 {
		t.Errorf("pending: last used in tick %d, want 5", got)
	}
}

// An error about a packet that is pending is believed: the answer may be there before the record says that the mapping was used.
func TestErrorsAboutPendingPackets(t *testing.T) {
	p := newPlainTables(t, 4, 4, 1<<12)
	must(t, p.putPrefix(t, kindMapCache, "10.2.0.0/24", locators(rloc4(1))))
	key, err := keyOf(kindMapCache, lisp.MustParsePrefix("10.2.0.0/24"))
	must(t, err)
	index, ok := p.entries.get(key)
	if !ok {
		t.Fatal("the mapping is not there")
	}
	const tick = 1000
	s := &mapStore{records: p.records, unsettled: make([]lisptcLispPending, 1), usage: make([]lisptcLispMappingCounters, len(p.records))}
	s.unsettled[0].Tick = tick
	offset := uint64(0)
	e := &Engine{store: s, tables: p.tables, clock: bootClock{offset: &offset}, settings: dataplane.Settings{LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(rloc4(0))}}}
	about := &forward.OuterError{Consistent: true, Source: rloc4(0), Destination: rloc4(1), Port: forward.DataPort}
	about.Inner.Destination = pairs[0].inner(1, 10)
	now := e.clock.fromBoot(tick << lastUsedShift).Add(time.Second)
	if e.maySend(now, about) {
		t.Error("believed before anything was sent")
	}
	s.count(0, index, 100)
	if !e.maySend(now, about) {
		t.Error("not believed while the packet is pending")
	}
}

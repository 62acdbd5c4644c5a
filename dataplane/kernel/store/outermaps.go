// SPDX-License-Identifier: Apache-2.0

// This file knows which places of the maps of maps are taken (fib, wide, numbers, groups) without asking the kernel, which waits for
// all programs with each operation at such a map before Linux 6.8, also when it only looks something up, or fails: some 20 ms. A
// process that was killed says so to the next one by the words of user space. What a place holds is not its business.

package store

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
)

// placeWords are the words of each outer map, of which a bit stands for each place that may be taken. Of fib's places, user space uses
// so many.
var placeWords = []struct {
	name  string
	words int
}{{abi.MapFib, 1}, {abi.MapFirstLevel4, 1}, {abi.MapFirstLevel6, 1}, {abi.MapSecondLevel6, 16}}

// innerMaps is what an outer map needs of its BPF map.
type innerMaps interface {
	Put(place, inner any) error
	Delete(place any) error
}

// An outerMap is a map of maps.
type outerMap struct {
	m     innerMaps
	taken []uint64
}

// openOuterMaps returns all of them, whose words are left. Where no process has kept these, the kernel is asked once.
func openOuterMaps(opened map[string]*ebpf.Map, kept *uint64, left []uint64) (map[string]*outerMap, error) {
	all := map[string]*outerMap{}
	for _, p := range placeWords {
		o := &outerMap{m: opened[p.name], taken: left[:p.words]}
		if places := int(opened[p.name].MaxEntries()); places < 64*p.words {
			return nil, fmt.Errorf("map %s has %d places: %w", p.name, places, ErrABI)
		}
		if *kept == 0 {
			o.look(opened[p.name])
		}
		left, all[p.name] = left[p.words:], o
	}
	*kept = 1
	return all, nil
}

// look finds out which places are taken.
func (o *outerMap) look(m *ebpf.Map) {
	for place := range o.places() {
		var id uint32
		if m.Lookup(place, &id) == nil {
			o.mark(place)
		}
	}
}

// free returns the first place that is not taken, from one on.
func (o *outerMap) free(from uint32) (place uint32, ok bool) {
	for place = from; place < o.places(); place++ {
		if !o.isTaken(place) {
			return place, true
		}
	}
	return 0, false
}

func (o *outerMap) places() uint32 { return uint32(64 * len(o.taken)) }

func (o *outerMap) isTaken(place uint32) bool {
	return atomic.LoadUint64(&o.taken[place/64])>>(place%64)&1 != 0
}

// all are the places that may be taken.
func (o *outerMap) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := range o.taken {
			for word := atomic.LoadUint64(&o.taken[i]); word != 0; word &= word - 1 {
				if !yield(uint32(64*i + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

func (o *outerMap) mark(place uint32) { atomic.OrUint64(&o.taken[place/64], 1<<(place%64)) }

func (o *outerMap) unmark(place uint32) {
	atomic.AndUint64(&o.taken[place/64], ^(uint64(1) << (place % 64)))
}

// put puts an inner map at a place that is not taken.
func (o *outerMap) put(place uint32, inner *ebpf.Map) error {
	o.mark(place) // before, so that the next process does not miss it after a crash
	err := o.m.Put(place, inner)
	if err != nil {
		o.unmark(place)
	}
	return err
}

// empty takes away what is at a place. After an error it stays taken.
func (o *outerMap) empty(place uint32) error {
	if !o.isTaken(place) {
		return nil
	}
	if err := o.m.Delete(place); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	o.unmark(place)
	return nil
}

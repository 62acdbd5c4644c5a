// SPDX-License-Identifier: Apache-2.0

// This file finds entries by their keys. The keys stand in the records themselves, so the
// index holds eight octets for a place, a third of what a Go map would, and the
// collector has nothing to walk. It never changes a record.

package tables

import (
	"hash/maphash"
	"iter"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
)

// leastPlaces is how many places an index has that is empty; a power of two.
const leastPlaces = 1 << 6

// An entryIndex maps keys to the indexes of records, by linear probing. A record must
// keep its key for as long as it is in the index.
type entryIndex struct {
	seed    maphash.Seed
	records []abi.Mapping
	places  []entryPlace // a power of two of them, a quarter free at least
	Count   int

	// What was hashed last: an entry is looked for two or three times before it is added. So looking writes, and is for one at a time.
	lastKey  lpm.Key
	lastHash uint32
}

// An entryPlace is free when after is 0.
type entryPlace struct{ hash, after uint32 } // after: the index and one

func newEntryIndex(records []abi.Mapping) entryIndex {
	x := entryIndex{seed: maphash.MakeSeed(), records: records, places: make([]entryPlace, leastPlaces)}
	x.lastHash = uint32(maphash.Comparable(x.seed, x.lastKey))
	return x
}

// hashOf mixes all of a key, with a secret seed: other parties choose the prefixes.
func (x *entryIndex) hashOf(key *lpm.Key) uint32 {
	if x.lastKey != *key {
		x.lastKey, x.lastHash = *key, uint32(maphash.Comparable(x.seed, *key))
	}
	return x.lastHash
}

// find returns the place of a key, or the free one where it would be put.
func (x *entryIndex) find(key *lpm.Key) (place uint32, found bool) {
	hash, mask := x.hashOf(key), uint32(len(x.places)-1)
	for place = hash & mask; x.places[place].after != 0; place = (place + 1) & mask {
		if p := x.places[place]; p.hash == hash && KeyOf(&x.records[p.after-1]) == *key {
			return place, true
		}
	}
	return place, false
}

func (x *entryIndex) Get(key lpm.Key) (index uint32, ok bool) {
	place, ok := x.find(&key)
	if !ok {
		return 0, false
	}
	return x.places[place].after - 1, true
}

// add enters the record at an index, whose key is not there yet.
func (x *entryIndex) add(index uint32) {
	if 4*(x.Count+1) > 3*len(x.places) {
		x.grow()
	}
	key := KeyOf(&x.records[index])
	place, _ := x.find(&key)
	x.places[place] = entryPlace{x.hashOf(&key), index + 1}
	x.Count++
}

func (x *entryIndex) grow() {
	old := x.places
	x.places = make([]entryPlace, 2*len(old))
	mask := uint32(len(x.places) - 1)
	for _, p := range old {
		if p.after == 0 {
			continue
		}
		place := p.hash & mask
		for x.places[place].after != 0 {
			place = (place + 1) & mask
		}
		x.places[place] = p
	}
}

// remove takes a key out and moves up what was put behind it only because it was there.
func (x *entryIndex) remove(key lpm.Key) {
	hole, found := x.find(&key)
	if !found {
		return
	}
	x.Count--
	mask := uint32(len(x.places) - 1)
	for place := (hole + 1) & mask; x.places[place].after != 0; place = (place + 1) & mask {
		home := x.places[place].hash & mask
		if (place-home)&mask >= (place-hole)&mask {
			x.places[hole] = x.places[place]
			hole = place
		}
	}
	x.places[hole] = entryPlace{}
}

// All are the keys and indexes of all entries, in no order; nothing may be changed meanwhile.
func (x *entryIndex) All() iter.Seq2[lpm.Key, uint32] {
	return func(yield func(lpm.Key, uint32) bool) {
		for _, p := range x.places {
			if p.after != 0 && !yield(KeyOf(&x.records[p.after-1]), p.after-1) {
				return
			}
		}
	}
}

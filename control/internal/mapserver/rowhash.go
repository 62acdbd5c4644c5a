// SPDX-License-Identifier: Apache-2.0

package mapserver

// rowHash: the registration that has exactly an EID-Prefix, by one line of the processor's cache and one of the table
// of rows, where a trie of a million waits for memory a dozen times. A lookup of an EID asks for each mask length in
// use; where there are many, the trie is asked instead (RFC 9301 s.5.5, s.8.3: the longest match). It grows by a bucket
// at a time (linear hashing), so that no event-loop iteration pays for all of it. It never holds what the trie does
// not. What it saves and costs is in docs/decisions/0031.

import (
	"math/bits"
	"slices"

	"loci/control/internal/table"
	"loci/lisp"
)

const (
	// BucketRows fill a bucket of 64 octets, a line of most processors' caches.
	BucketRows = 7
	// bucketLoad is how many rows there are for each bucket before another one is added.
	bucketLoad = 5
	// MostBucketsInChain bounds a search. Who registers EID-Prefixes of one hash on purpose has the trie
	// searched again, no more.
	MostBucketsInChain = 8
	// mostLengths of a family are asked for one after the other.
	mostLengths = 4
)

// hashBucket has rows whose hashes end alike. With the hashes in it, no other memory is read when rows move.
type hashBucket struct {
	hashes [BucketRows]uint32
	rows   [BucketRows]uint32 // plus one; 0 is free
	next   uint32             // number of the spare bucket where others are, plus one
	_      uint32
}

// lengthsKey is what mask lengths are counted for.
type lengthsKey struct {
	instance lisp.InstanceID
	kind     lisp.EIDKind
}

// maskLengths are those in use, the longest first.
type maskLengths struct {
	used  []uint8
	count [129]uint32
}

// rowHash belongs to the table of rows that its callers pass.
type rowHash struct {
	Buckets table.Chunked[hashBucket]
	Spare   table.Slab[hashBucket]
	Size    int
	Off     bool // a chain was too long
	Lengths map[lengthsKey]*maskLengths
	moved   []movedRow
}

// movedRow is a row, plus one, between two buckets.
type movedRow struct{ hash, row uint32 }

// address is the number of the bucket where a hash belongs: by so many of its last bits that there is one.
func (x *rowHash) address(hash uint32) int {
	n := x.Buckets.Len()
	all := 1<<bits.Len(uint(n-1)) - 1
	if at := int(hash) & all; at < n {
		return at
	}
	return int(hash) & (all >> 1)
}

// find is the row of exactly that EID-Prefix.
func (x *rowHash) find(rows *table.Slab[Registration], p *lisp.Prefix, hash uint32) (row uint32, ok bool) {
	if x.Size == 0 {
		return 0, false
	}
	for b := x.Buckets.At(x.address(hash)); ; b = x.Spare.At(b.next - 1) {
		for i, h := range b.hashes {
			if h == hash && b.rows[i] != 0 && rows.At(b.rows[i]-1).Prefix == *p {
				return b.rows[i] - 1, true
			}
		}
		if b.next == 0 {
			return 0, false
		}
	}
}

// Insert adds a row whose EID-Prefix is not there.
func (x *rowHash) Insert(rows *table.Slab[Registration], row uint32) {
	p := &rows.At(row).Prefix
	x.countLength(p, 1)
	if x.Off {
		return
	}
	if x.Size >= x.Buckets.Len()*bucketLoad {
		x.grow()
	}
	x.Size++
	if !x.place(row+1, HashOf(p)) {
		*x = rowHash{Off: true, Lengths: x.Lengths}
	}
}

// place puts a row, plus one, into the chain where it belongs. It reports false when that is too long.
func (x *rowHash) place(row uint32, hash uint32) bool {
	b := x.Buckets.At(x.address(hash))
	for range MostBucketsInChain {
		if i := slices.Index(b.rows[:], 0); i >= 0 {
			b.hashes[i], b.rows[i] = hash, row
			return true
		}
		if b.next == 0 {
			added := x.Spare.Add(hashBucket{}) // b may be in the same table, and elsewhere now
			x.last(hash).next = added + 1
			b = x.Spare.At(added)
			continue
		}
		b = x.Spare.At(b.next - 1)
	}
	return false
}

// last is the last bucket of a chain.
func (x *rowHash) last(hash uint32) *hashBucket {
	b := x.Buckets.At(x.address(hash))
	for b.next != 0 {
		b = x.Spare.At(b.next - 1)
	}
	return b
}

// grow adds a bucket and moves those rows there that belong there now: they are all in one chain.
func (x *rowHash) grow() {
	n := x.Buckets.Len()
	x.Buckets.Push(hashBucket{})
	if n == 0 {
		return
	}
	old := x.Buckets.At(n &^ (1 << (bits.Len(uint(n)) - 1)))
	x.moved = x.moved[:0]
	x.empty(old)
	for next := old.next; next != 0; {
		b := x.Spare.At(next - 1)
		spare := next - 1
		next = b.next
		x.empty(b)
		x.Spare.Release(spare)
	}
	*old = hashBucket{}
	for _, m := range x.moved {
		x.place(m.row, m.hash) // no chain is longer than it was
	}
}

// empty takes down what rows a bucket has.
func (x *rowHash) empty(b *hashBucket) {
	for i, row := range b.rows {
		if row != 0 {
			x.moved = append(x.moved, movedRow{b.hashes[i], row})
		}
	}
}

// Remove takes a row out, if it is there.
func (x *rowHash) Remove(rows *table.Slab[Registration], row uint32) {
	p := &rows.At(row).Prefix
	x.countLength(p, -1)
	if x.Size == 0 {
		return
	}
	hash := HashOf(p)
	for b := x.Buckets.At(x.address(hash)); ; b = x.Spare.At(b.next - 1) {
		if i := slices.Index(b.rows[:], row+1); i >= 0 {
			b.rows[i] = 0
			x.Size--
			return
		}
		if b.next == 0 {
			return
		}
	}
}

func (x *rowHash) countLength(p *lisp.Prefix, by int) {
	if !p.EID().IsIP() {
		return // the trie is asked for them
	}
	k := lengthsKey{p.Instance(), p.Kind()}
	l := x.Lengths[k]
	if l == nil {
		if x.Lengths == nil {
			x.Lengths = make(map[lengthsKey]*maskLengths)
		}
		l = &maskLengths{}
		x.Lengths[k] = l
	}
	before := l.count[p.Bits()]
	l.count[p.Bits()] = uint32(int(before) + by)
	if before != 0 && l.count[p.Bits()] != 0 {
		return
	}
	l.used = l.used[:0]
	for length := len(l.count) - 1; length >= 0; length-- {
		if l.count[length] != 0 {
			l.used = append(l.used, uint8(length))
		}
	}
	if len(l.used) == 0 {
		delete(x.Lengths, k)
	}
}

// lengthsFor are the mask lengths to ask for; ok is false where the trie has to be asked.
func (x *rowHash) lengthsFor(asked *lisp.Prefix) (used []uint8, ok bool) {
	if x.Off || !asked.IsHost() || !asked.EID().IsIP() {
		return nil, false
	}
	if l := x.Lengths[lengthsKey{asked.Instance(), asked.Kind()}]; l != nil {
		used = l.used
	}
	return used, len(used) <= mostLengths
}

// covering is the prefix of a length around the first EID of another.
func covering(p *lisp.Prefix, length uint8) (lisp.Prefix, uint32) {
	wider, _ := lisp.PrefixFrom(p.Instance(), p.EID(), int(length)) // a length of that family
	return wider, HashOf(&wider)
}

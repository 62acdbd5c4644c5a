// SPDX-License-Identifier: Apache-2.0

package mapserver

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"loci/lisp"
)

// rowHashes is a table of rows with its trie and its hash.
type rowHashes struct {
	t    *testing.T
	all  *Registrations
	have map[lisp.Prefix]uint32
}

func newRowHashes(t *testing.T) *rowHashes {
	return &rowHashes{t: t, all: &Registrations{}, have: map[lisp.Prefix]uint32{}}
}

func (r *rowHashes) insert(p lisp.Prefix) {
	if _, known := r.have[p]; known {
		return
	}
	id := r.all.Rows.Add(Registration{Prefix: p})
	r.all.Index.Insert(p, id)
	r.all.Exact.Insert(&r.all.Rows, id)
	r.have[p] = id
}

func (r *rowHashes) remove(p lisp.Prefix) {
	id, known := r.have[p]
	if !known {
		return
	}
	r.all.Exact.Remove(&r.all.Rows, id)
	r.all.Index.Remove(p)
	r.all.Rows.Release(id)
	delete(r.have, p)
}

// check compares what is found with what the trie finds.
func (r *rowHashes) check(asked lisp.Prefix) {
	r.t.Helper()
	id, _, ok := r.all.Get(asked)
	if want, known := r.have[asked]; ok != known || id != want {
		r.t.Fatalf("%s: row %d, %v; want %d, %v", asked, id, ok, want, known)
	}
	id, ok = r.all.Lookup(&asked)
	if want, known := r.all.Index.Lookup(asked); ok != known || id != want {
		r.t.Fatalf("what covers %s: row %d, %v; want %d, %v", asked, id, ok, want, known)
	}
}

// prefixOfLengths is one of not too many, of lengths that shall be in use.
func prefixOfLengths(random *rand.Rand, lengths []int) lisp.Prefix {
	instance := lisp.InstanceID(random.IntN(2))
	switch random.IntN(20) {
	case 0:
		return lisp.HostPrefix(instance, lisp.EIDFromMAC([6]byte{2, byte(random.IntN(50))}))
	case 1:
		name, _ := lisp.EIDFromName("a-name-that-is-longer-than-" + string(rune('a'+random.IntN(26))))
		return lisp.HostPrefix(instance, name)
	}
	length := lengths[random.IntN(len(lengths))]
	var octets [16]byte
	binary.BigEndian.PutUint32(octets[:], 0x0a000000|random.Uint32N(1<<20)<<2)
	e := lisp.EIDFromAddr(netip.AddrFrom4([4]byte(octets[:4])))
	if random.IntN(2) == 0 {
		octets[0], length = 0x20, length*4
		e = lisp.EIDFromAddr(netip.AddrFrom16(octets))
	}
	p, _ := lisp.PrefixFrom(instance, e, length)
	return p
}

// What the hash finds is what the trie finds, with few mask lengths and with many, while rows come and go.
func TestRowHash(t *testing.T) {
	for name, lengths := range map[string][]int{"one length": {28}, "some": {20, 24, 28, 32}, "many": {8, 12, 16, 20, 24, 26, 28, 32}} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			r := newRowHashes(t)
			var all []lisp.Prefix
			for range 30_000 {
				p := prefixOfLengths(random, lengths)
				if random.IntN(3) > 0 || len(all) == 0 {
					r.insert(p)
					all = append(all, p)
				} else {
					r.remove(all[random.IntN(len(all))])
				}
				r.check(p)
				r.check(lisp.HostPrefix(p.Instance(), p.EID()))
			}
			if r.all.Exact.Size != len(r.have) || r.all.Exact.Off {
				t.Errorf("%d rows, off %v; want %d", r.all.Exact.Size, r.all.Exact.Off, len(r.have))
			}
			for _, p := range all {
				r.remove(p)
				r.check(p)
			}
			if r.all.Exact.Size != 0 || len(r.all.Exact.Lengths) != 0 {
				t.Errorf("%d rows and %d families are left", r.all.Exact.Size, len(r.all.Exact.Lengths))
			}
		})
	}
}

// Who registers EID-Prefixes of one hash makes the trie be searched again, and loses nothing.
func TestRowHashCollisions(t *testing.T) {
	r := newRowHashes(t)
	const sameBits = 1<<10 - 1
	var all []lisp.Prefix
	for n := uint32(0); len(all) <= MostBucketsInChain*BucketRows; n++ {
		p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})), 32)
		if HashOf(&p)&sameBits == 0 {
			all = append(all, p)
		}
	}
	for i, p := range all {
		if r.all.Exact.Off {
			t.Fatalf("off after %d rows", i)
		}
		r.insert(p)
	}
	if !r.all.Exact.Off {
		t.Fatalf("a chain of more than %d buckets", MostBucketsInChain)
	}
	for _, p := range all {
		r.check(p)
	}
	for _, p := range all {
		r.remove(p)
		r.check(p)
	}
}

// A growing table moves one chain at a time.
func TestRowHashGrowsByOne(t *testing.T) {
	r := newRowHashes(t)
	for i := range uint32(5000) {
		before := r.all.Exact.Buckets.Len()
		p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0})), 24)
		r.insert(p)
		if grown := r.all.Exact.Buckets.Len() - before; grown > 1 {
			t.Fatalf("row %d: %d buckets more", i, grown)
		}
	}
	if spare := r.all.Exact.Spare.Len(); spare > r.all.Exact.Buckets.Len()/4 {
		t.Errorf("%d spare buckets beside %d: the hash does not spread", spare, r.all.Exact.Buckets.Len())
	}
}

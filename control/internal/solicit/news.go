// SPDX-License-Identifier: Apache-2.0

package solicit

// What peers are told by SMRs (RFC 9301 s.6.1): the EID-Prefixes whose mappings changed,
// one list for all peers, so that each of thousands needs no list of its own. A table: it
// sends nothing.

import "loci/lisp"

// SMRNews bounds the EID-Prefixes that peers are told about at a time. At one SMR in three
// seconds, a peer hears of so many in an hour; beyond it finds out by its own RLOC-probes.
const SMRNews = 1024

// ChangedMappings are EID-Prefixes in the order in which they changed, each once.
type ChangedMappings struct {
	List  []lisp.Prefix
	known map[lisp.Prefix]struct{}
}

// Add returns how many did not fit.
func (c *ChangedMappings) Add(prefixes []lisp.Prefix) (refused int) {
	if c.known == nil {
		c.known = make(map[lisp.Prefix]struct{})
	}
	for i, p := range prefixes {
		if _, known := c.known[p]; known {
			continue
		}
		if len(c.List) >= SMRNews {
			return len(prefixes) - i
		}
		c.List = append(c.List, p)
		c.known[p] = struct{}{}
	}
	return 0
}

// News are numbered for good, oldest first.
type News struct {
	List  []lisp.Prefix
	First uint64                 // number of the first
	Last  map[lisp.Prefix]uint64 // the highest number of each
}

// End is the number of what comes next.
func (n *News) End() uint64 { return n.First + uint64(len(n.List)) }

// LacksRoom reports whether that many more do not fit.
func (n *News) LacksRoom(more int) bool { return len(n.List)+more > SMRNews }

// Add returns how many did not fit.
func (n *News) Add(prefixes []lisp.Prefix) (refused int) {
	if n.Last == nil {
		n.Last = make(map[lisp.Prefix]uint64)
	}
	for i, p := range prefixes {
		if n.LacksRoom(1) {
			return len(prefixes) - i
		}
		n.Last[p] = n.End()
		n.List = append(n.List, p)
	}
	return 0
}

// At is the EID-Prefix of a number; ok is false where that is over, or said again before
// another number.
func (n *News) At(number, to uint64) (p lisp.Prefix, ok bool) {
	if number < n.First || number >= n.End() {
		return lisp.Prefix{}, false
	}
	p = n.List[number-n.First]
	last := n.Last[p]
	return p, last == number || last >= to
}

// Has reports whether an EID-Prefix is among those from one number up to another.
func (n *News) Has(p lisp.Prefix, from, to uint64) bool {
	number, known := n.Last[p]
	return known && number >= from && number < to
}

// Forget forgets what is older than a number.
func (n *News) Forget(before uint64) {
	for len(n.List) > 0 && n.First < before {
		if p := n.List[0]; n.Last[p] == n.First {
			delete(n.Last, p)
		}
		n.List, n.First = n.List[1:], n.First+1
	}
	if len(n.List) == 0 {
		n.List = nil
	}
}

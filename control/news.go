// SPDX-License-Identifier: Apache-2.0

package control

// What peers are told by SMRs (RFC 9301 s.6.1): the EID-Prefixes whose mappings changed,
// one list for all peers, so that each of thousands needs no list of its own. A table: it
// sends nothing.

import "loci/lisp"

// smrNews bounds the EID-Prefixes that peers are told about at a time. At one SMR in three
// seconds, a peer hears of so many in an hour; beyond it finds out by its own RLOC-probes.
const smrNews = 1024

// changedMappings are EID-Prefixes in the order in which they changed, each once.
type changedMappings struct {
	list  []lisp.Prefix
	known map[lisp.Prefix]struct{}
}

// add returns how many found no room.
func (c *changedMappings) add(prefixes []lisp.Prefix) (refused int) {
	if c.known == nil {
		c.known = make(map[lisp.Prefix]struct{})
	}
	for i, p := range prefixes {
		if _, known := c.known[p]; known {
			continue
		}
		if len(c.list) >= smrNews {
			return len(prefixes) - i
		}
		c.list = append(c.list, p)
		c.known[p] = struct{}{}
	}
	return 0
}

// news are numbered for good, oldest first.
type news struct {
	list  []lisp.Prefix
	first uint64                 // number of the first
	last  map[lisp.Prefix]uint64 // the highest number of each
}

// end is the number of what comes next.
func (n *news) end() uint64 { return n.first + uint64(len(n.list)) }

// lacksRoom reports whether there is no room for that many more.
func (n *news) lacksRoom(more int) bool { return len(n.list)+more > smrNews }

// add returns how many found no room.
func (n *news) add(prefixes []lisp.Prefix) (refused int) {
	if n.last == nil {
		n.last = make(map[lisp.Prefix]uint64)
	}
	for i, p := range prefixes {
		if n.lacksRoom(1) {
			return len(prefixes) - i
		}
		n.last[p] = n.end()
		n.list = append(n.list, p)
	}
	return 0
}

// at is the EID-Prefix of a number; ok is false where that is over, or said again before
// another number.
func (n *news) at(number, to uint64) (p lisp.Prefix, ok bool) {
	if number < n.first || number >= n.end() {
		return lisp.Prefix{}, false
	}
	p = n.list[number-n.first]
	last := n.last[p]
	return p, last == number || last >= to
}

// has reports whether an EID-Prefix is among those from one number up to another.
func (n *news) has(p lisp.Prefix, from, to uint64) bool {
	number, known := n.last[p]
	return known && number >= from && number < to
}

// forget forgets what is older than a number.
func (n *news) forget(before uint64) {
	for len(n.list) > 0 && n.first < before {
		if p := n.list[0]; n.last[p] == n.first {
			delete(n.last, p)
		}
		n.list, n.first = n.list[1:], n.first+1
	}
	if len(n.list) == 0 {
		n.list = nil
	}
}

// SPDX-License-Identifier: Apache-2.0

package mapserver

// Which EID-Prefixes have a registration that is not in force, beside the one that is (RFC 9301 s.5.6). A status that lists them
// would walk a million rows otherwise.

import "loci/lisp"

// maxDisplaced bounds the EID-Prefixes that are known by name; all are counted. Where one of these ends, another is known by name when
// it is registered again.
const maxDisplaced = 64

// displaced are such EID-Prefixes.
type displaced struct {
	Count int
	some  map[lisp.Prefix]struct{}
}

// judge brings a row's mark up to date.
func (d *displaced) judge(t *Registrations, row *Registration) {
	is := false
	if t.Registrants.At(row.newest).next != noRow {
		for r := range t.Each(row) {
			is = is || !t.isInForce(row, r)
		}
	}
	d.note(row, is)
}

func (d *displaced) note(row *Registration, is bool) {
	switch {
	case is && !row.displaced:
		d.Count++
	case !is && row.displaced:
		d.Count--
		delete(d.some, row.Prefix)
	}
	if row.displaced = is; !is || len(d.some) >= maxDisplaced {
		return
	}
	if d.some == nil {
		d.some = map[lisp.Prefix]struct{}{}
	}
	d.some[row.Prefix] = struct{}{}
}

// Some lists EID-Prefixes with a registration that is not in force, some dozens at most.
func (d *displaced) Some() (list []lisp.Prefix) {
	for p := range d.some {
		list = append(list, p)
	}
	return list
}

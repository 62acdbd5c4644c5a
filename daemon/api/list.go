// SPDX-License-Identifier: Apache-2.0

package api

// What a list of the control socket is narrowed to, by the query of its URL.

import (
	"net/url"
	"strconv"

	"loci/lisp"
)

// ListQuery narrows a list of the control socket: `?eid=10.0.0.0/8&after=10.1.0.0/16&limit=100`.
type ListQuery struct {
	EIDPrefix lisp.Prefix // entries that it covers or is covered by; zero for all
	After     lisp.Prefix // entries of EID-Prefixes that come after it in the list; zero for all
	Limit     int         // the first so many entries; 0 for all
}

// Wants reports whether an entry belongs to the list.
func (q ListQuery) Wants(p lisp.Prefix) bool { return q.EIDPrefix.IsZero() || p.Overlaps(q.EIDPrefix) }

func (q ListQuery) encode() string {
	values := url.Values{}
	if !q.EIDPrefix.IsZero() {
		values.Set("eid", q.EIDPrefix.String())
	}
	if !q.After.IsZero() {
		values.Set("after", q.After.String())
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

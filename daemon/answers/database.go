// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"iter"
	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

// What `loci show database` is answered.

// Database lists the ETR's EID-Prefixes.
func (a *Answers) Database(ctx context.Context, q api.ListQuery) iter.Seq2[api.DatabaseEntry, error] {
	read := func(node *control.Node, _ []control.DatabaseMapping, after lisp.Prefix) []control.DatabaseMapping {
		return node.DatabasePage(after, tablePage)
	}
	return documents(pages(ctx, a.Loop, read, func(m *control.DatabaseMapping) lisp.Prefix { return m.Prefix }), func(m control.DatabaseMapping) (api.DatabaseEntry, bool) {
		document := api.DatabaseEntry{EIDPrefix: m.Prefix, Locators: api.LocatorsOf(m.Locators), TTL: api.TTLOf(m.TTLMinutes), MapVersion: m.Version, Site: m.Site}
		return document, q.Wants(m.Prefix)
	})
}

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
	prefixOf := func(m *control.DatabaseMapping) lisp.Prefix { return m.Prefix }
	return documents(pages(ctx, a.Loop, q.After, read, prefixOf), func(m control.DatabaseMapping) (api.DatabaseEntry, bool) {
		return databaseDocument(m), q.Wants(m.Prefix)
	})
}

func databaseDocument(m control.DatabaseMapping) api.DatabaseEntry {
	return api.DatabaseEntry{
		EIDPrefix: m.Prefix, Locators: api.LocatorsOf(m.Locators), TTL: api.TTLOf(m.TTLMinutes), MapVersion: m.Version, Site: m.Site,
	}
}

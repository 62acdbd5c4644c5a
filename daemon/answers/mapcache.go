// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"iter"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show map-cache` is answered.

// MapCache lists the entries of the ITR that the data plane has.
func (a *Answers) MapCache(ctx context.Context, q api.ListQuery) iter.Seq2[api.MapCacheEntry, error] {
	type row struct {
		prefix lisp.Prefix
		layers []control.SecondLayer
	}
	foreign, _ := a.foreignChanges()
	var prefixes []lisp.Prefix
	read := func(node *control.Node, page []row, after lisp.Prefix) []row {
		prefixes = node.MapCachePrefixes(prefixes[:0], q.EIDPrefix, after, pageOf(q))
		prefixes = withForeign(prefixes, foreign, q, after)
		for _, p := range prefixes {
			page = append(page, row{p, node.SecondLayers(p)})
		}
		return page
	}
	return documents(pages(ctx, a.Loop, q.After, read, func(r *row) lisp.Prefix { return r.prefix }), func(r row) (api.MapCacheEntry, bool) {
		if a.Plane == nil {
			return api.MapCacheEntry{}, false
		}
		entry, ok := a.Plane.Mapping(r.prefix)
		document := mapCacheDocument(entry)
		document.SecondLayers = layersDocument(r.layers)
		return document, ok
	})
}

func mapCacheDocument(e dataplane.MapCacheEntry) api.MapCacheEntry {
	document := api.MapCacheEntry{
		EIDPrefix: e.Mapping.Prefix, Locators: api.LocatorsOf(e.Mapping.Locators), Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale,
		ByNAT: e.ByNAT, Registered: e.Registered,
		Authoritative: e.Mapping.Authoritative, CreatedAt: e.CreatedAt, ExpiresAt: jsondoc.KnownTime(e.ExpiresAt),
		LastUsedAt: jsondoc.KnownTime(e.Usage.LastUsedAt), Packets: e.Usage.Packets, Octets: e.Usage.Octets,
	}
	if document.ProxyETR = control.ByProxyETR(e.Mapping); document.ProxyETR || e.Mapping.Negative() {
		document.Action = &e.Mapping.Action
	}
	return document
}

func layersDocument(layers []control.SecondLayer) (documents []api.SecondLayer) {
	for _, l := range layers {
		documents = append(documents, api.SecondLayer{RLOC: l.RLOC, EIDPrefix: l.Prefix, Through: l.Through, Problem: string(l.Problem), LeadsBack: l.LeadsBack})
	}
	return documents
}

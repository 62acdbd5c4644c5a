// SPDX-License-Identifier: Apache-2.0

package answers

// Mappings that clients of the mapping socket have changed: where the data plane has something else than the control
// plane told it, packets meet what the data plane has. `loci explain` says so of one EID, `loci status` of all.

import (
	"context"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/health"
	"loci/dataplane"
	"loci/lisp"
)

// flushSample is how many EID-Prefixes are looked up after others have emptied the data plane's map-cache.
const flushSample = 64

// foreignPage is how many EID-Prefixes are looked up in one iteration of the event loop.
const foreignPage = 128

// foreignChanges are those that the data plane reports.
func (a *Answers) foreignChanges() (list []dataplane.ForeignChange, more uint64) {
	if reporter, ok := a.Plane.(dataplane.ForeignReporter); ok {
		return reporter.ForeignChanges()
	}
	return nil, 0
}

// addForeign finds the EID-Prefixes of which the planes hold different things because others have changed them.
func (a *Answers) addForeign(ctx context.Context, f *health.Facts) error {
	list, more := a.foreignChanges()
	f.NotCompared = more
	if len(list) == 0 {
		return nil
	}
	if list[0].Prefix.IsZero() {
		list = slices.Concat(list[1:], a.sampleOf(ctx, list[0].At))
	}
	for page := range slices.Chunk(list, foreignPage) {
		wanted, err := a.wantedMappings(ctx, page)
		if err != nil {
			return err
		}
		for i, change := range page {
			a.compare(f, change, wanted[i])
		}
	}
	return nil
}

// compare adds an EID-Prefix whose mapping in the data plane is not the one that is wanted there; nil for none.
func (a *Answers) compare(f *health.Facts, change dataplane.ForeignChange, wanted *lisp.Mapping) {
	entry, there := a.Plane.Mapping(change.Prefix)
	switch {
	case there == (wanted != nil) && (!there || sameForwarding(entry.Mapping, *wanted)):
		return
	case len(f.Differing) == healthListed:
		f.MoreDiffering++
		return
	}
	d := health.Difference{EIDPrefix: change.Prefix, Since: change.At}
	if there {
		d.DataPlane = entry.Mapping.String()
	}
	if wanted != nil {
		d.ControlPlane = wanted.String()
	}
	f.Differing = append(f.Differing, d)
}

// sampleOf are some EID-Prefixes of the map-cache, as if others had changed them.
func (a *Answers) sampleOf(ctx context.Context, at time.Time) (list []dataplane.ForeignChange) {
	prefixes, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) []lisp.Prefix {
		return node.MapCachePrefixes(nil, lisp.Prefix{}, lisp.Prefix{}, flushSample)
	})
	if err != nil {
		return nil
	}
	for _, p := range prefixes {
		list = append(list, dataplane.ForeignChange{Prefix: p, At: at})
	}
	return list
}

// wantedMappings are those that the control plane wants in the data plane for EID-Prefixes; nil for none.
func (a *Answers) wantedMappings(ctx context.Context, of []dataplane.ForeignChange) ([]*lisp.Mapping, error) {
	return eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (list []*lisp.Mapping) {
		for _, change := range of {
			var wanted *lisp.Mapping
			if m, known := node.ToldMapping(change.Prefix); known {
				wanted = &m
			}
			list = append(list, wanted)
		}
		return list
	})
}

// sameForwarding reports whether packets go the same way by two mappings.
func sameForwarding(a, b lisp.Mapping) bool {
	return a.Prefix == b.Prefix && a.Locators.Equal(b.Locators) && a.Action == b.Action
}

// withForeign adds to a page of EID-Prefixes of the map-cache those within its bounds that clients have added. A page
// that is not full is the last one.
func withForeign(page []lisp.Prefix, list []dataplane.ForeignChange, q api.ListQuery, after lisp.Prefix) []lisp.Prefix {
	known, isLast := len(page), len(page) < pageOf(q)
	for _, change := range list {
		p := change.Prefix
		isWithin := !p.IsZero() && q.Wants(p) && (after.IsZero() || p.Compare(after) > 0) && (isLast || p.Compare(page[known-1]) < 0)
		if isWithin && !slices.Contains(page[:known], p) {
			page = append(page, p)
		}
	}
	slices.SortFunc(page, lisp.Prefix.Compare)
	return page
}

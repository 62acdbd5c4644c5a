// SPDX-License-Identifier: Apache-2.0

package answers

// The tables that the control socket lists. They may have a million entries: each is read
// one page an iteration of the event loop, in the order of EID-Prefixes, and sent before the next page is
// read. What changes meanwhile may be listed or not.

import (
	"cmp"
	"context"
	"encoding/hex"
	"iter"
	"slices"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/lisp"
)

const (
	// tablePage bounds what one iteration lists, and for how long messages wait where there is one processor.
	tablePage = 64
	// pageRest is the least time between two pages. Go's runtime looks for messages at once only while nothing else can run:
	// beside a list without rests they waited for 70 ms where there is one processor. The clock of sleepers is not finer.
	pageRest = time.Millisecond
	// restShare is how many times as long as for a page a list rests after it: it takes a fourth of a processor at most, and
	// less where other work keeps it waiting.
	restShare = 3
	// longestRest bounds that: a page takes long where its reader does.
	longestRest = 20 * time.Millisecond
	// idleStretch is how long a list works at a time while nothing else comes: so long waits the first message, once.
	idleStretch = 4 * time.Millisecond
	// idleAfter is how long nothing must have come.
	idleAfter = time.Second
)

// pace is when a list rests. Beside traffic it does so in proportion to its work; alone it goes on, with a rest now and then in which
// a message is found.
type pace struct {
	traffic           uint64 // so far
	trafficAt, rested time.Time
}

// restAfterPage is how long the list rests after a page, given the time, how long the page took, and the event loop's Traffic.
func (p *pace) restAfterPage(now time.Time, took time.Duration, traffic uint64) (rest time.Duration) {
	if traffic != p.traffic {
		p.traffic, p.trafficAt = traffic, now
	}
	switch {
	case now.Sub(p.trafficAt) < idleAfter:
		rest = restAfter(took)
	case now.Sub(p.rested) < idleStretch:
		return 0
	default:
		rest = pageRest
	}
	p.rested = now.Add(rest)
	return rest
}

// pageOf is how many entries the next page needs to have.
func pageOf(q api.ListQuery) int { return min(cmp.Or(q.Limit, tablePage), tablePage) }

// pages yields the entries of a table. read, which is called in iterations of the event loop, lists a page of what comes after an EID-Prefix,
// in the memory of the page before if it likes.
func pages[R any](ctx context.Context, l *eventloop.Loop, read func(node *control.Node, page []R, after lisp.Prefix) []R, prefixOf func(*R) lisp.Prefix) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		defer l.BeginList()()
		var page []R
		pace := pace{traffic: l.Traffic()}
		for after := (lisp.Prefix{}); ; {
			room, began := page[:0], time.Now()
			var err error
			page, err = eventloop.Ask(ctx, l, func(node *control.Node, _ time.Time) []R { return read(node, room, after) })
			if err != nil {
				yield(*new(R), err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			after = prefixOf(&page[len(page)-1])
			time.Sleep(pace.restAfterPage(time.Now(), time.Since(began), l.Traffic()))
		}
	}
}

// restAfter is how long a list rests after a page that took so long to read and to send.
func restAfter(took time.Duration) time.Duration {
	return min(max(restShare*took, pageRest), longestRest)
}

// documents makes documents of the entries for which there is one.
func documents[R, T any](entries iter.Seq2[R, error], document func(R) (T, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for entry, err := range entries {
			if err != nil {
				yield(*new(T), err)
				return
			}
			if made, ok := document(entry); ok && !yield(made, nil) {
				return
			}
		}
	}
}

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
	return documents(pages(ctx, a.Loop, read, func(r *row) lisp.Prefix { return r.prefix }), func(r row) (api.MapCacheEntry, bool) {
		if a.Plane == nil {
			return api.MapCacheEntry{}, false
		}
		entry, ok := a.Plane.Mapping(r.prefix)
		document := mapCacheDocument(entry)
		document.SecondLayers = layersDocument(r.layers)
		return document, ok
	})
}

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

// Registrations lists those of the Map-Server.
func (a *Answers) Registrations(ctx context.Context, q api.ListQuery) iter.Seq2[api.Registration, error] {
	read := func(node *control.Node, page []control.Registration, after lisp.Prefix) []control.Registration {
		return node.RegistrationsPage(page, q.EIDPrefix, after, pageOf(q))
	}
	return documents(pages(ctx, a.Loop, read, func(r *control.Registration) lisp.Prefix { return r.Prefix }), func(r control.Registration) (api.Registration, bool) {
		return registrationDocument(r), true
	})
}

// MapRequests lists them when it has read them all: they are few, and the table is in another order.
func (a *Answers) MapRequests(ctx context.Context, q api.ListQuery) iter.Seq2[api.PendingMapRequest, error] {
	return func(yield func(api.PendingMapRequest, error) bool) {
		list, err := a.pendingRequests(ctx, q)
		if err != nil {
			yield(api.PendingMapRequest{}, err)
			return
		}
		for _, r := range list {
			if !yield(mapRequestDocument(r), nil) {
				return
			}
		}
	}
}

func (a *Answers) pendingRequests(ctx context.Context, q api.ListQuery) (list []control.PendingRequest, err error) {
	type page struct {
		list []control.PendingRequest
		next uint32
		more bool
	}
	for at := (page{more: true}); at.more; {
		from := at.next
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = node.PendingPage(from, tablePage)
			return p
		})
		if err != nil {
			return nil, err
		}
		for _, r := range at.list {
			if q.Wants(r.Prefix) {
				list = append(list, r)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b control.PendingRequest) int { return a.Prefix.Compare(b.Prefix) })
	return list, nil
}

func mapCacheDocument(e dataplane.MapCacheEntry) api.MapCacheEntry {
	document := api.MapCacheEntry{
		EIDPrefix: e.Mapping.Prefix, Locators: api.LocatorsOf(e.Mapping.Locators), Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale,
		Authoritative: e.Mapping.Authoritative, CreatedAt: e.CreatedAt, ExpiresAt: jsondoc.KnownTime(e.ExpiresAt),
		LastUsedAt: jsondoc.KnownTime(e.Usage.LastUsedAt), Packets: e.Usage.Packets, Octets: e.Usage.Octets,
	}
	if document.ProxyETR = control.ByProxyETR(e.Mapping); document.ProxyETR || e.Mapping.Negative() {
		document.Action = &e.Mapping.Action
	}
	return document
}

func mapRequestDocument(r control.PendingRequest) api.PendingMapRequest {
	document := api.PendingMapRequest{
		EIDPrefix: r.Prefix, SMRInvoked: r.SMRInvoked, State: string(r.State), Tries: r.Tries, StartedAt: r.StartedAt, NextAt: r.NextAt,
	}
	if !r.Source.IsZero() {
		document.SourceEID = r.Source.String()
	}
	if r.MapResolver.IsValid() {
		document.MapResolver = r.MapResolver.String()
	}
	return document
}

func registrationDocument(r control.Registration) api.Registration {
	document := api.Registration{
		Site: r.Site, EIDPrefix: r.Prefix, Locators: api.LocatorsOf(r.Mapping.Locators), InForce: r.InForce, ETR: r.From.String(), KeyID: r.KeyID,
		Algorithm: config.Algorithm(r.Algorithm).String(), SiteID: r.SiteID,
		ProxyReply: r.ProxyReply, UseRecordTTL: r.UseTTL, MergeRequest: r.MergeRequest, WantMapNotify: r.WantMapNotify,
		RecordTTL: api.TTLOf(r.Mapping.TTLMinutes), MapVersion: r.Mapping.Version,
		FirstRegisteredAt: r.FirstRegisteredAt, LastRegisteredAt: r.LastRegisteredAt, ExpiresAt: r.ExpiresAt,
	}
	if r.XTRID != [16]byte{} {
		document.XTRID = hex.EncodeToString(r.XTRID[:])
	}
	if !r.AsAnswered {
		document.Answered = api.LocatorsOf(r.Merged.Locators)
	}
	return document
}

// SPDX-License-Identifier: Apache-2.0

package answers

// The tables that the control socket lists. They may have a million entries: each is read
// one page an iteration of the event loop, in the order of EID-Prefixes, and sent before the next page is
// read. What changes meanwhile may be listed or not.

import (
	"cmp"
	"context"
	"iter"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/lisp"
)

const (
	// tablePage bounds what one iteration lists, and for how long messages wait where there is one processor.
	tablePage = 64
	// pageRest is the least time between two pages. Go's runtime looks for messages at once only while nothing
	// else can run: beside a list without rests they waited for 70 ms where there is one processor. The clock of
	// sleepers is not finer.
	pageRest = time.Millisecond
	// restShare is how many times as long as for a page a list rests after it: it takes a fourth of a processor
	// at most, and less where other work keeps it waiting.
	restShare = 3
	// longestRest bounds that: a page takes long where its reader does.
	longestRest = 20 * time.Millisecond
	// idleStretch is how long a list works at a time while nothing else comes: so long waits the first message,
	// once.
	idleStretch = 4 * time.Millisecond
	// idleAfter is how long nothing must have come.
	idleAfter = time.Second
)

// pace is when a list rests. Beside traffic it does so in proportion to its work; alone it goes on, with a rest now
// and then in which a message is found.
type pace struct {
	traffic           uint64 // so far
	trafficAt, rested time.Time
}

// restAfterPage is how long the list rests after a page, given the time, how long the page took, and the event loop's
// Traffic.
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

// pages yields the entries of a table that come after an EID-Prefix, all for the zero one. read, which is called in
// iterations of the event loop, lists a page of what comes after one, in the memory of the page before if it likes.
func pages[R any](ctx context.Context, l *eventloop.Loop, after lisp.Prefix,
	read func(node *control.Node, page []R, after lisp.Prefix) []R, prefixOf func(*R) lisp.Prefix) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		defer l.BeginList()()
		var page []R
		pace := pace{traffic: l.Traffic()}
		for after := after; ; {
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

// SPDX-License-Identifier: Apache-2.0

// This file marks the Database's entries to whose addresses all packets go by one
// gateway (judge.go), so that programs keep one next hop for all of them. A mark is
// taken away as soon as the kernel reports a route, rule or link that might make a
// difference, and given back after a look at all routes. No mark counts while no
// process follows the routes: after this one has ended, or while it misses messages.

package nexthop

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

const (
	// lookInterval is how often it is asked whether there is a reason to look, and how
	// long news are waited for to come together.
	lookInterval = time.Second
	// believedTime is for how long programs believe that routes are followed: after a
	// process is killed, marks count no longer than that.
	believedTime = 2500 * time.Millisecond
	// lookPart: looking takes this part of the time at most.
	lookPart = 50
	// limit is how many entries of the Database are judged; of more, the others are not marked.
	limit = 1 << 14
	// newsOctets is the socket's buffer.
	newsOctets = 1 << 20
	// beatRoutes: after so many routes of a look the programs see again that routes are followed.
	beatRoutes = 1 << 12
)

var newsGroups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
}

// Parts are what a watcher is made of.
type Parts struct {
	Log     *slog.Logger
	Space   *netspace.Space
	Entries Entries
	Changed tables.Generations
	TAP     string // its name: packets of this host come in by it
}

// Entries is what a watcher asks about the Database. It asks with its own lock held.
type Entries interface {
	// DatabaseEdits returns how often the Database was edited, false when it is closed.
	DatabaseEdits() (edits uint64, open bool)
	// DatabaseEntries returns entries of the Database, at most so many, and the own RLOCs, as of so many edits.
	DatabaseEntries(limit int) (entries []tables.DatabaseEntry, own []lisp.RLOC, edits uint64)
	// MarkSingleNextHops marks entries that are still the same, and returns those.
	MarkSingleNextHops([]tables.DatabaseEntry) []tables.DatabaseEntry
	// UnmarkSingleNextHops takes marks away, by index.
	UnmarkSingleNextHops([]uint32)
	// CountSingleNextHops returns how many of these are still marked.
	CountSingleNextHops([]uint32) int
}

// Watcher marks entries of the Database whose packets have a single next hop.
type Watcher struct {
	Parts

	mu        sync.Mutex
	judged    *judge                  // the latest
	marked    map[uint32]netip.Prefix // by index
	news      uint64                  // how often something happened that a look may have missed
	seen      uint64                  // news that the last look knew of
	edits     uint64                  // of the Database, that the last look knew of
	listening bool
}

// NewWatcher makes a watcher, which Watch and Listen set to work.
func NewWatcher(p Parts) *Watcher { return &Watcher{Parts: p} }

// Watch looks and marks entries for the programs until the engine ends.
func (w *Watcher) Watch(stop <-chan struct{}) {
	defer w.forget()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	var rested time.Time // no look before
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		w.beat()
		began := time.Now()
		if began.Before(rested) {
			continue
		}
		if err := w.look(); err != nil {
			w.Log.Debug("it cannot be told which ways packets take in the site", "error", err)
		}
		rested = time.Now().Add(lookPart * time.Since(began))
	}
}

// beat lets programs know that routes are followed, for some time.
func (w *Watcher) beat() {
	_, boot, err := bootclock.Sample()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.listening && len(w.marked) > 0 {
		atomic.StoreUint64(&w.Changed.Numbers.WatchedUntilNs, uint64(boot+int64(believedTime)))
	}
}

// forget takes all marks away.
func (w *Watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	atomic.StoreUint64(&w.Changed.Numbers.WatchedUntilNs, 0)
	w.takeNews(routeNews{all: true})
}

// takeNews takes the marks away that something may concern. The caller holds mu.
func (w *Watcher) takeNews(news routeNews) {
	if j := w.judged; !news.all && (j == nil || len(j.touched(news.prefix)) == 0) {
		return
	}
	w.news++
	w.unmark(func(prefix netip.Prefix) bool { return news.all || news.prefix.Overlaps(prefix) })
}

// unmark takes the marks of some entries away. The caller holds mu.
func (w *Watcher) unmark(which func(prefix netip.Prefix) bool) {
	var unmarked []uint32
	for index, prefix := range w.marked {
		if which(prefix) {
			unmarked = append(unmarked, index)
			delete(w.marked, index)
		}
	}
	if len(unmarked) > 0 {
		w.Entries.UnmarkSingleNextHops(unmarked)
	}
}

// look marks the entries whose addresses have a single next hop, if there may be
// others than before.
func (w *Watcher) look() error {
	candidates, edits, news := w.candidates()
	if candidates == nil {
		return nil
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if err := w.judgeFamily(family); err != nil {
			return err
		}
	}
	w.markAll(candidates, edits, news)
	w.beat()
	return nil
}

// markAll marks what was judged to have a single next hop, unless there were news meanwhile.
func (w *Watcher) markAll(candidates []tables.DatabaseEntry, edits, news uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news != news {
		return // later, then
	}
	w.seen, w.edits = news, edits
	single := slices.DeleteFunc(candidates, func(c tables.DatabaseEntry) bool { return !w.judged.single(c.Prefix) })
	if w.marked == nil {
		w.marked = map[uint32]netip.Prefix{}
	}
	for _, c := range w.Entries.MarkSingleNextHops(single) {
		w.marked[c.Index] = c.Prefix
	}
}

// candidates returns the Database's entries, and makes their judge, when there is a
// reason to look; nil when there is none. edits and news are what the answer knows of.
func (w *Watcher) candidates() (candidates []tables.DatabaseEntry, edits, news uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edits, open := w.Entries.DatabaseEdits()
	if !open || !w.listening || w.seen == w.news && w.edits == edits {
		return nil, 0, 0
	}
	candidates, rlocs, edits := w.Entries.DatabaseEntries(limit)
	var prefixes []netip.Prefix
	for _, c := range candidates {
		prefixes = append(prefixes, c.Prefix)
	}
	var own []netip.Addr
	for _, rloc := range rlocs {
		own = append(own, rloc.Addr())
	}
	w.judged = newJudge(prefixes, w.TAP, own)
	w.unmark(func(prefix netip.Prefix) bool { return w.judged.verdicts[prefix] == nil }) // no news would end those marks
	return candidates, edits, w.news
}

// judgeFamily reads rules and routes of a family.
func (w *Watcher) judgeFamily(family int) error {
	w.mu.Lock()
	j := w.judged
	w.mu.Unlock()
	if len(j.touched(everyAddress(family))) == 0 {
		return nil
	}
	rules, err := rulesIn(w.Space, family)
	if err != nil {
		return err
	}
	j.takeRules(family, rules)
	routes := 0
	return w.Space.Do(func() error {
		if known, err := knowsRules(family); err != nil || !known {
			j.divide(everyAddress(family))
			return err
		}
		return eachRoute(family, func(r route) {
			if routes++; routes%beatRoutes == 0 {
				w.beat()
			}
			j.takeRoute(r)
		})
	})
}

// Count is how many entries are marked.
func (w *Watcher) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Entries.CountSingleNextHops(slices.Collect(maps.Keys(w.marked)))
}

// Listen takes news of routes, rules and links until the engine ends.
func (w *Watcher) Listen(stop <-chan struct{}) {
	for {
		err := w.hear(stop)
		w.mu.Lock()
		w.listening = false
		w.mu.Unlock()
		w.forget()
		select {
		case <-stop:
			return
		case <-time.After(lookInterval):
		}
		w.Log.Warn("the kernel does not tell of changed routes: asking again", "error", err)
	}
}

func (w *Watcher) hear(stop <-chan struct{}) error {
	var socket *nl.NetlinkSocket
	err := w.Space.Do(func() (err error) {
		socket, err = nl.Subscribe(unix.NETLINK_ROUTE, newsGroups...)
		return err
	})
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	heard := make(chan struct{})
	var closing sync.WaitGroup
	closing.Go(func() {
		select {
		case <-stop:
		case <-heard:
		}
		socket.Close()
	})
	defer closing.Wait()
	defer close(heard)
	_ = socket.SetReceiveBufferSize(newsOctets, false)
	w.mu.Lock()
	w.listening = true
	w.news++
	w.mu.Unlock()
	for {
		messages, from, err := socket.Receive()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // some were lost
			w.lockAndTake(routeNews{all: true})
		case err != nil:
			return fmt.Errorf("netlink: %w", err)
		case from.Pid == nl.PidKernel:
			w.takeMessages(messages)
		}
	}
}

func (w *Watcher) takeMessages(messages []syscall.NetlinkMessage) {
	for _, m := range messages {
		if news, ok := newsOf(m); ok {
			w.lockAndTake(news)
		}
	}
}

func (w *Watcher) lockAndTake(news routeNews) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takeNews(news)
}

// Settled reports whether the last look knew of all that happened.
func (w *Watcher) Settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen == w.news
}

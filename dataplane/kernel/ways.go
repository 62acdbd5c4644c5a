// SPDX-License-Identifier: Apache-2.0

// This file marks the Database's entries to whose addresses all packets go by one
// gateway (oneway.go), so that programs keep one next hop for all of them. A mark is
// taken away as soon as the kernel tells of a route, rule or link that might make a
// difference, and given back after a look at all routes. No mark counts when nobody
// follows the routes: not after this process has ended, nor while it is deaf.

package kernel

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
)

const (
	// wayLookInterval is how often it is asked whether there is a reason to look, and how
	// long news are waited for to come together.
	wayLookInterval = time.Second
	// wayWatchTime is for how long programs believe that routes are followed: after a
	// process is killed, marks count no longer than that.
	wayWatchTime = 2500 * time.Millisecond
	// wayLookPart: looking takes this part of the time at most.
	wayLookPart = 50
	// wayLimit is how many entries of the Database are judged; of more, the others are not marked.
	wayLimit = 1 << 14
	// wayNewsOctets is the socket's buffer.
	wayNewsOctets = 1 << 20
	// wayBeatRoutes: so often during a look the programs are told that routes are followed.
	wayBeatRoutes = 1 << 12
)

var wayNewsGroups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
}

// ways is what is known of them. Engine.mu guards it.
type ways struct {
	judged    *wayJudge               // the latest
	marked    map[uint32]netip.Prefix // by index
	news      uint64                  // how often something happened that a look may have missed
	seen      uint64                  // news that the last look knew of
	edits     uint64                  // of the Database, that the last look knew of
	listening bool
}

// wayCandidate is an entry of the Database that may be marked.
type wayCandidate struct {
	index  uint32
	born   uint64
	prefix netip.Prefix
}

// watchWays looks and tells programs of it until the engine ends.
func (e *Engine) watchWays() {
	defer e.forgetWays()
	ticker := time.NewTicker(wayLookInterval)
	defer ticker.Stop()
	var rested time.Time // no look before
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
		}
		e.beatWays()
		began := time.Now()
		if began.Before(rested) {
			continue
		}
		if err := e.lookAtWays(); err != nil {
			e.log.Debug("it cannot be told which ways packets take in the site", "error", err)
		}
		rested = time.Now().Add(wayLookPart * time.Since(began))
	}
}

// beatWays tells programs that routes are followed, for some time.
func (e *Engine) beatWays() {
	_, boot, err := sampleClocks()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.ways.listening && len(e.ways.marked) > 0 {
		atomic.StoreUint64(&e.store.changed.numbers.WatchedUntilNs, uint64(boot+int64(wayWatchTime)))
	}
}

// forgetWays takes all marks away.
func (e *Engine) forgetWays() {
	e.mu.Lock()
	defer e.mu.Unlock()
	atomic.StoreUint64(&e.store.changed.numbers.WatchedUntilNs, 0)
	e.takeWayNews(wayNews{all: true})
}

// takeWayNews takes the marks away that something may concern. The caller holds mu.
func (e *Engine) takeWayNews(news wayNews) {
	if j := e.ways.judged; !news.all && (j == nil || len(j.touched(news.prefix)) == 0) {
		return
	}
	e.ways.news++
	e.unmarkWays(func(prefix netip.Prefix) bool { return news.all || news.prefix.Overlaps(prefix) })
}

// unmarkWays takes the marks of some entries away. The caller holds mu.
func (e *Engine) unmarkWays(which func(prefix netip.Prefix) bool) {
	cleared := false
	for index, prefix := range e.ways.marked {
		if !which(prefix) {
			continue
		}
		record := &e.tables.records[index]
		atomic.StoreUint32(&record.Flags, record.Flags&^abi.MappingOneWay)
		delete(e.ways.marked, index)
		cleared = true
	}
	if cleared {
		e.store.changed.all()
	}
}

// lookAtWays marks the entries whose addresses have one way, if there may be others
// than before.
func (e *Engine) lookAtWays() error {
	candidates, edits, news := e.wayCandidates()
	if candidates == nil {
		return nil
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if err := e.judgeWays(family); err != nil {
			return err
		}
	}
	e.markWays(candidates, edits, news)
	e.beatWays()
	return nil
}

// markWays marks what was judged to have one way, unless there were news meanwhile.
func (e *Engine) markWays(candidates []wayCandidate, edits, news uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.ways.news != news {
		return // later, then
	}
	e.ways.seen, e.ways.edits = news, edits
	for _, c := range candidates {
		if e.ways.judged.oneWay(c.prefix) {
			e.markWay(c)
		}
	}
}

// wayCandidates returns the Database's entries, and makes their judge, when there is a
// reason to look; nil when there is none. edits and news are what the answer knows of.
func (e *Engine) wayCandidates() (candidates []wayCandidate, edits, news uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, t := &e.ways, e.tables
	if e.closed || !w.listening || e.tap.index == 0 || w.seen == w.news && w.edits == t.databaseEdits {
		return nil, 0, 0
	}
	var prefixes []netip.Prefix
	for index := range t.database {
		key := keyOfRecord(&t.records[index])
		if prefix, err := key.Prefix(); err == nil && len(candidates) < wayLimit {
			candidates = append(candidates, wayCandidate{index, t.born[index], prefix.Netip()})
			prefixes = append(prefixes, prefix.Netip())
		}
	}
	var own []netip.Addr
	for _, rloc := range e.settings.LocalRLOCs {
		own = append(own, rloc.Addr())
	}
	w.judged = newWayJudge(prefixes, e.tap.name, own)
	e.unmarkWays(func(prefix netip.Prefix) bool { return w.judged.verdicts[prefix] == nil }) // no news would end those marks
	return candidates, t.databaseEdits, w.news
}

// judgeWays reads rules and routes of a family.
func (e *Engine) judgeWays(family int) error {
	e.mu.Lock()
	j := e.ways.judged
	e.mu.Unlock()
	if len(j.touched(everyAddress(family))) == 0 {
		return nil
	}
	rules, err := e.space.rules(family)
	if err != nil {
		return err
	}
	j.takeRules(family, rules)
	routes := 0
	return e.space.do(func() error {
		if known, err := knowsRules(family); err != nil || !known {
			j.divide(everyAddress(family))
			return err
		}
		return eachRoute(family, func(r siteRoute) {
			if routes++; routes%wayBeatRoutes == 0 {
				e.beatWays()
			}
			j.takeRoute(r)
		})
	})
}

// markWay marks an entry, unless it is another one by now. The caller holds mu.
func (e *Engine) markWay(c wayCandidate) {
	if e.tables.born[c.index] != c.born {
		return
	}
	if e.ways.marked == nil {
		e.ways.marked = map[uint32]netip.Prefix{}
	}
	e.ways.marked[c.index] = c.prefix
	record := &e.tables.records[c.index]
	atomic.StoreUint32(&record.Flags, record.Flags|abi.MappingOneWay)
}

// oneWays is how many entries are marked. The caller holds mu.
func (e *Engine) oneWays() int {
	maps.DeleteFunc(e.ways.marked, func(index uint32, _ netip.Prefix) bool {
		return e.tables.born[index] == 0 || e.tables.records[index].Flags&abi.MappingOneWay == 0
	})
	return len(e.ways.marked)
}

// listenToWays takes news of routes, rules and links until the engine ends.
func (e *Engine) listenToWays() {
	for {
		err := e.hearWays()
		e.mu.Lock()
		e.ways.listening = false
		e.mu.Unlock()
		e.forgetWays()
		select {
		case <-e.stop:
			return
		case <-time.After(wayLookInterval):
		}
		e.log.Warn("the kernel does not tell of changed routes: asking again", "error", err)
	}
}

func (e *Engine) hearWays() error {
	var socket *nl.NetlinkSocket
	err := e.space.do(func() (err error) {
		socket, err = nl.Subscribe(unix.NETLINK_ROUTE, wayNewsGroups...)
		return err
	})
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	heard := make(chan struct{})
	var closing sync.WaitGroup
	closing.Go(func() {
		select {
		case <-e.stop:
		case <-heard:
		}
		socket.Close()
	})
	defer closing.Wait()
	defer close(heard)
	_ = socket.SetReceiveBufferSize(wayNewsOctets, false)
	e.mu.Lock()
	e.ways.listening = true
	e.ways.news++
	e.mu.Unlock()
	for {
		messages, from, err := socket.Receive()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // some were lost
			e.takeAllWayNews(wayNews{all: true})
		case err != nil:
			return fmt.Errorf("netlink: %w", err)
		case from.Pid == nl.PidKernel:
			e.takeMessages(messages)
		}
	}
}

func (e *Engine) takeMessages(messages []syscall.NetlinkMessage) {
	for _, m := range messages {
		if news, ok := newsOf(m); ok {
			e.takeAllWayNews(news)
		}
	}
}

func (e *Engine) takeAllWayNews(news wayNews) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.takeWayNews(news)
}

// SPDX-License-Identifier: Apache-2.0

package datapath

// Checker runs a Watch: it asks the control plane, sends the checks, and hears the answers.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"loci/lisp"
)

const (
	// tick is the time between two looks at what is due, sourceInterval between two looks at the addresses of
	// this host.
	tick           = 250 * time.Millisecond
	sourceInterval = 5 * time.Second
	// lateFor is for how long an answer is taken that comes late, maxOutstanding bounds the echo requests whose
	// answers are.
	lateFor        = 10 * time.Second
	maxOutstanding = 8192
)

// Host is what the daemon knows.
type Host interface {
	// DataPaths tells what the control plane knows, one for each question.
	DataPaths(ctx context.Context, questions []Question) ([]Facts, error)
	// OwnEIDs are addresses of this host that are EIDs of its site, one of each family; zero where there is none.
	OwnEIDs() (v4, v6 netip.Addr)
	// DataPathChanged tells that a path was lost, or came back.
	DataPathChanged(now time.Time, s State)
}

// outstanding is an echo request whose answer may come.
type outstanding struct {
	check Check
	ttl   int
	at    time.Time
}

// request names an echo request.
type request struct {
	is4      bool
	sequence uint16
}

// Checker checks the data paths of the mappings in use.
type Checker struct {
	host Host
	log  *slog.Logger

	mu       sync.Mutex
	watch    *Watch
	sent     map[request]outstanding
	sequence uint16
	impaired string    // why nothing can be sent, as last logged
	counted  time.Time // when the answers of this host were counted last

	sockets map[bool]*socket // IPv4; the goroutine of Run owns it
}

// New returns a Checker that sends nothing before Run.
func New(host Host, log *slog.Logger) *Checker {
	var random [2]byte
	_, _ = rand.Read(random[:])
	return &Checker{
		host: host, log: log, watch: NewWatch(), sent: map[request]outstanding{},
		sequence: binary.BigEndian.Uint16(random[:]), sockets: map[bool]*socket{},
	}
}

// Use takes how many packets went by a mapping of the data plane since it was installed.
func (c *Checker) Use(m *lisp.Mapping, packets uint64, lastUsedAt time.Time) {
	now := time.Now()
	if m.Prefix.Instance() != 0 || len(m.Locators) == 0 || now.Sub(lastUsedAt) > useWindow {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.counted) >= tick {
		c.counted = now
		c.countAnswers()
	}
	c.watch.Use(now, m, packets)
}

// countAnswers counts those that this host has sent. Where the kernel does not tell, they may be as many as count.
// The caller holds mu.
func (c *Checker) countAnswers() {
	v4, v6, ok := answersSent()
	if !ok {
		v4, v6 = c.watch.answers[true]+mostAnswers, c.watch.answers[false]+mostAnswers
	}
	c.watch.SetAnswers(true, v4)
	c.watch.SetAnswers(false, v6)
}

// States are those of the paths that are watched.
func (c *Checker) States() []State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch.States(time.Now())
}

// Counts are totals since the start.
func (c *Checker) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch.Counts()
}

// Run checks until the context ends.
func (c *Checker) Run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	defer func() {
		for _, s := range c.sockets {
			s.close()
		}
	}()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var looked time.Time
	for {
		select {
		case now := <-ticker.C:
			if now.Sub(looked) >= sourceInterval {
				looked = now
				c.followSources(&listening)
			}
			c.step(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// followSources opens a socket for each own EID of this host.
func (c *Checker) followSources(listening *sync.WaitGroup) {
	v4, v6 := c.host.OwnEIDs()
	impaired := ""
	for is4, source := range map[bool]netip.Addr{true: v4, false: v6} {
		if s := c.sockets[is4]; s != nil && s.source != source {
			s.close()
			delete(c.sockets, is4)
		}
		if !source.IsValid() || c.sockets[is4] != nil {
			continue
		}
		s, err := openSocket(source)
		if err != nil {
			impaired = err.Error()
			continue
		}
		c.sockets[is4] = s
		listening.Go(func() { s.listen(func(h heard) { c.take(is4, h) }) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.SetSources(c.sockets[true].address(), c.sockets[false].address())
	if impaired != c.impaired && impaired != "" {
		c.log.Info("data paths are not checked", "reason", impaired)
	}
	c.impaired = impaired
}

// step asks, sends, and tells what changed.
func (c *Checker) step(ctx context.Context) {
	c.mu.Lock()
	questions := c.watch.Wanted(time.Now())
	c.mu.Unlock()
	var facts []Facts
	if len(questions) > 0 {
		var err error
		if facts, err = c.host.DataPaths(ctx, questions); err != nil {
			return
		}
	}
	now := time.Now()
	c.mu.Lock()
	for i, f := range facts {
		c.watch.Learn(questions[i], f)
	}
	c.watch.Expire(now)
	c.forget(now)
	var checks []Check
	if len(c.sent) < maxOutstanding {
		checks = c.watch.Next(now)
	}
	changes := c.watch.Changes(now)
	c.mu.Unlock()
	for _, check := range checks {
		c.send(now, check)
	}
	for _, s := range changes {
		c.host.DataPathChanged(now, s)
	}
}

// forget forgets echo requests that are not answered. The caller holds mu.
func (c *Checker) forget(now time.Time) {
	for r, o := range c.sent {
		if now.Sub(o.at) > lateFor {
			delete(c.sent, r)
		}
	}
}

// send sends the echo requests of a check.
func (c *Checker) send(now time.Time, check Check) {
	s, sent := c.sockets[check.To.Is4()], false
	for _, ttl := range check.TTLs {
		c.mu.Lock()
		c.sequence++
		r := request{check.To.Is4(), c.sequence}
		c.sent[r] = outstanding{check, ttl, now}
		c.mu.Unlock()
		if s != nil && s.send(check.To, r.sequence, check.Octets, ttl) == nil {
			sent = true
		}
	}
	if !sent {
		c.mu.Lock()
		c.watch.Unsent(check)
		c.mu.Unlock()
	}
}

// take takes what came back.
func (c *Checker) take(is4 bool, h heard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, known := c.sent[request{is4, h.sequence}]
	if !known {
		return
	}
	c.watch.Answer(time.Now(), Answer{Check: o.check, TTL: o.ttl, Kind: h.kind, From: h.from, Octets: h.octets})
}

// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/plan"
	"loci/daemon/transport"
	"loci/daemon/trouble"
)

// answersOf are those of a Map-Server whose loop is at work until the context ends.
func answersOf(t *testing.T, ctx context.Context) *Answers {
	t.Helper()
	return answersTo(t, ctx, "map-resolver: {}\nmap-server:\n  sites: [{name: a, authentication-keys: [{auth-key-value: some-secret-key}], eid-prefixes: [{eid: 10.1.0.0/16}]}]\n", func(*control.Node) {})
}

// answersTo are those of a daemon of any configuration; prepare is called before the loop runs.
func answersTo(t *testing.T, ctx context.Context, text string, prepare func(*control.Node)) *Answers {
	t.Helper()
	c, err := config.Parse("loci.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(c, hostnet.Host{View: hostnet.View{Links: []hostnet.Link{
		{Name: "lan0", Index: 2, Up: true, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}},
		{Name: "wan0", Index: 3, Up: true, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	sockets, err := transport.Listen([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, 0, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sockets.Close)
	node, err := control.New(p.Control, time.Now(), func(b []byte) { _, _ = rand.Read(b) })
	if err != nil {
		t.Fatal(err)
	}
	prepare(node)
	handed := handover.New(sockets.Queue)
	l := eventloop.New(eventloop.Parts{Node: node, Sockets: sockets, Handed: handed, Events: events.NewHub(), SiblingPath: func(netip.Addr) {}, Log: log})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return &Answers{Loop: l, Sockets: sockets, Handed: handed, State: stillState{&p}}
}

// stillState is that of a daemon in which nothing changes.
type stillState struct{ p *plan.Plan }

func (s stillState) InForce() *plan.Plan                              { return s.p }
func (stillState) IsReady() bool                                      { return true }
func (stillState) Warnings() []trouble.Trouble                        { return nil }
func (stillState) DataPlane() (name, reason string, missing []string) { return "", "", nil }

// endOf reads a list to its end.
func endOf[T any](list iter.Seq2[T, error]) (err error) {
	for _, err = range list {
	}
	return err
}

// TestAskersMayLeave has clients hang up while the loop is busy. The race detector is the judge.
func TestAskersMayLeave(t *testing.T) {
	a := answersOf(t, t.Context())
	for range 200 {
		gone, leave := context.WithCancel(t.Context())
		busy := make(chan struct{})
		go func() {
			_, _ = eventloop.Ask(context.Background(), a.Loop, func(*control.Node, time.Time) struct{} { <-busy; return struct{}{} })
		}()
		answered := make(chan error, 4)
		go func() { _, err := a.Counters(gone); answered <- err }()
		go func() { _, err := a.Status(gone); answered <- err }()
		go func() { answered <- endOf(a.Registrations(gone, api.ListQuery{})) }()
		go func() { answered <- endOf(a.Database(gone, api.ListQuery{})) }()
		leave()
		for range 4 {
			if err := <-answered; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		close(busy)
	}
	if c, err := a.Counters(t.Context()); err != nil || len(c.Control) == 0 {
		t.Errorf("afterwards: %v, %v", c, err)
	}
}

func TestAskersOfAStoppedLoopAreTold(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	a := answersOf(t, stopped)
	for { // the loop may still end
		err := endOf(a.Registrations(t.Context(), api.ListQuery{}))
		if errors.Is(err, eventloop.ErrStopping) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

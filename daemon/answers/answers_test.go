// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	"loci/lisp"
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

// TestListsGoOnAfterAnEIDPrefix, also one that is not in the list, and within the one that narrows it.
func TestListsGoOnAfterAnEIDPrefix(t *testing.T) {
	text := `interfaces: {core: [wan0], site: [{interface: lan0}]}
itr: {map-resolvers: [192.0.2.100]}
etr:
  map-servers: [{ms-address: 192.0.2.100, authentication-keys: [{auth-key-value: some-secret-key}]}]
  local-eids:
`
	var destinations []lisp.Prefix
	for i := range 4 {
		text += fmt.Sprintf("  - {eid: 10.1.%d.0/24}\n", i)
		destinations = append(destinations, lisp.MustParsePrefix(fmt.Sprintf("10.2.0.%d/32", i)))
	}
	a := answersTo(t, t.Context(), text, func(node *control.Node) {
		for _, p := range destinations {
			node.HandleMiss(time.Now(), control.Miss{Destination: p.EID()})
		}
	})
	for after, want := range map[string][2]int{
		"0.0.0.0/0": {4, 4}, "10.1.1.0/24": {2, 4}, "10.1.1.128/25": {2, 4}, "10.1.3.0/24": {0, 4}, "10.2.0.2/32": {0, 1}, "10.3.0.0/16": {0, 0},
	} {
		q := api.ListQuery{EIDPrefix: lisp.MustParsePrefix("10.0.0.0/8"), After: lisp.MustParsePrefix(after)}
		if got := [2]int{lengthOf(t, a.Database(t.Context(), q)), lengthOf(t, a.MapRequests(t.Context(), q))}; got != want {
			t.Errorf("after %s: %v entries, want %v", after, got, want)
		}
	}
}

func lengthOf[T any](t *testing.T, list iter.Seq2[T, error]) (length int) {
	t.Helper()
	for _, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		length++
	}
	return length
}

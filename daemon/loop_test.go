// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/events"
	"loci/daemon/transport"
)

// runningDaemon is a Map-Server's daemon with its loop at work, without sockets.
func runningDaemon(t *testing.T) *daemon {
	t.Helper()
	return daemonWith(t, func(s *transport.Sockets) controlSockets { return s })
}

// daemonWith is runningDaemon with the sockets that wrap makes of its own.
func daemonWith(t *testing.T, wrap func(*transport.Sockets) controlSockets) *daemon {
	t.Helper()
	c, err := config.Parse("loci.yaml", []byte("map-resolver: {}\nmap-server:\n  sites: [{name: a, authentication-keys: [{auth-key-value: some-secret-key}], eid-prefixes: [{eid: 10.1.0.0/16}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := makePlan(c, fakeHost)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &daemon{log: log, events: events.NewHub()}
	d.plan.Store(&p)
	if d.sockets, err = transport.Listen([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, 0, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.sockets.Close)
	node, err := control.New(p.control, time.Now(), new(random).read)
	if err != nil {
		t.Fatal(err)
	}
	d.loop = newLoop(node, wrap(d.sockets), nil, d.events, log)
	ctx, stop := context.WithCancel(context.Background())
	go d.loop.run(ctx)
	t.Cleanup(func() { stop(); <-d.loop.stopped })
	return d
}

// TestAskersMayLeave has clients hang up while the loop is busy. The race detector
// is the judge.
// endOf reads a list to its end.
func endOf[T any](list iter.Seq2[T, error]) (err error) {
	for _, err = range list {
	}
	return err
}

func TestAskersMayLeave(t *testing.T) {
	d := runningDaemon(t)
	for range 200 {
		gone, leave := context.WithCancel(t.Context())
		busy := make(chan struct{})
		go func() {
			_, _ = ask(context.Background(), d.loop, func(time.Time) struct{} { <-busy; return struct{}{} })
		}()
		answered := make(chan error, 4)
		go func() { _, err := d.counters(gone); answered <- err }()
		go func() { _, err := d.status(gone); answered <- err }()
		go func() { answered <- endOf(d.registrations(gone, api.ListQuery{})) }()
		go func() { answered <- endOf(d.database(gone, api.ListQuery{})) }()
		leave()
		for range 4 {
			if err := <-answered; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		close(busy)
	}
	if c, err := d.counters(t.Context()); err != nil || len(c.Control) == 0 {
		t.Errorf("afterwards: %v, %v", c, err)
	}
}

func TestAskersOfAStoppedLoopAreTold(t *testing.T) {
	d := runningDaemon(t)
	d.loop = newLoop(d.loop.node, d.sockets, nil, d.events, d.log)
	close(d.loop.stopped)
	if err := endOf(d.registrations(t.Context(), api.ListQuery{})); !errors.Is(err, errStopping) {
		t.Errorf("got %v", err)
	}
}

func TestNeedsRestart(t *testing.T) {
	const base = planHead + "etr:\n  local-eids: [{eid: 10.1.0.0/24, instance-id: 7}]\n"
	current, err := planOf(t, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ added, want string }{
		{"control: {socket: /run/other.sock}\n", "control.socket"},
		{"control: {port: 14342}\n", "control.port"},
		{"control: {addresses: [192.0.2.1]}\n", "control.addresses"},
		{"datapath: {interface: lisp9}\n", "datapath"},
		{"datapath: {mapping-socket: {path: /run/map.sock}}\n", "datapath"},
		{"logging: {format: json}\n", "logging.format"},
		{"logging: {level: debug}\n", ""},
		{"limits: {pending-map-requests: 17}\n", ""},
	} {
		fresh, err := planOf(t, base+c.added)
		if err != nil {
			t.Fatal(err)
		}
		if err := needsRestart(current, fresh, current.mappingLimit()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%sgot %v, want %q", c.added, err, c.want)
		}
	}
	again, _ := planOf(t, base+"datapath: {mapping-socket: {path: /run/map.sock}}\n")
	same, _ := planOf(t, base+"datapath: {mapping-socket: {path: /run/map.sock}}\n")
	if err := needsRestart(again, same, again.mappingLimit()); err != nil {
		t.Errorf("the same file: %v", err)
	}
	if kept, err := planOf(t, base+"  nonce-file: /var/lib/loci/nonce\n"); err != nil || needsRestart(current, kept, current.mappingLimit()) == nil {
		t.Errorf("etr.nonce-file may be changed at work: %v", err)
	}
	larger := current
	larger.control.Limits.MapCacheEntries *= 2
	if err := needsRestart(current, larger, current.mappingLimit()); err == nil {
		t.Error("a larger map-cache needs no new tables")
	}
}

// TestETRComesAndGoes: what counts is what the data plane was made for, not what was configured last.
func TestETRComesAndGoes(t *testing.T) {
	without, err := planOf(t, planHead)
	if err != nil {
		t.Fatal(err)
	}
	with := func(count int) plan {
		text := planHead + "etr:\n  local-eids:\n"
		for i := range count {
			text += fmt.Sprintf("    - {eid: 10.%d.%d.0/24, instance-id: 7}\n", 64+i/256, i%256)
		}
		p, err := planOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	few, many := with(1), with(databaseStep)
	if err := needsRestart(without, few, without.mappingLimit()); err != nil {
		t.Errorf("an ETR that a reload adds: %v", err)
	}
	if err := needsRestart(without, many, many.mappingLimit()); err != nil {
		t.Errorf("an ETR that comes back: %v", err)
	}
	if err := needsRestart(few, many, few.mappingLimit()); err == nil || !strings.Contains(err.Error(), "etr.local-eids") {
		t.Errorf("more EID-Prefixes than there is room for: %v", err)
	}
}

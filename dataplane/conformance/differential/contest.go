// SPDX-License-Identifier: Apache-2.0

// Package differential is the differential test of engines: random operations and packets through a reference, which
// is package forward with tables around it, and through engines, with equal results: the same errors, the same
// packets at both sides, the same counters. The chosen cases are in package conformance; a difference that this finds
// belongs there. For tests alone.
//
// What is left out is not an engine's to say: ICMP errors of the router, because their rates are limited by clocks,
// nonces, outer source ports, checksums and numbers of outer headers. How packets are made is in packets.go.
package differential

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
)

// Contest is a differential test. All harnesses have the same clock, and live as long as the test: what an engine
// remembers of one seed must not decide anything of the next.
type Contest struct {
	Reference conformance.Harness
	Engines   map[string]conformance.Harness
	Except    map[string][]string // counters that an engine counts otherwise
	First     uint64              // seed
	Seeds     int
	Steps     int // of a seed; 0: DefaultSteps
	// KeepsDatabase leaves out deletions of Database entries, for engines that do not admit again what waited.
	KeepsDatabase bool
}

// DefaultSteps is how many operations or packets a seed has.
const DefaultSteps = 60

// patience bounds the wait for a counter.
const patience = 5 * time.Second

// lossPatience is how often an engine is asked for a packet that has to come.
const lossPatience = 10

// rival is an engine in a contest.
type rival struct {
	conformance.Harness
	name   string
	plane  dataplane.Plane
	except []string
	before tally // the counters when the seed began
}

// contest is a seed of a Contest.
type contest struct {
	*generator
	reference *rival
	engines   []*rival
	did       []string // the steps, for messages
	toldOf    uint64   // events of subflows
}

// Run runs the seeds, up to the first that shows a difference.
func (c Contest) Run(t *testing.T) {
	t.Helper()
	run := &contest{reference: newRival("forward", c.Reference)}
	for _, name := range slices.Sorted(maps.Keys(c.Engines)) {
		engine := newRival(name, c.Engines[name])
		engine.except = c.Except[name]
		run.engines = append(run.engines, engine)
	}
	steps := c.Steps
	if steps == 0 {
		steps = DefaultSteps
	}
	seen := map[string]uint64{}
	for seed := c.First; seed < c.First+uint64(c.Seeds); seed++ {
		run.generator = newGenerator(seed)
		run.keepsDatabase = c.KeepsDatabase
		if err := run.seed(t, steps); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(run.did, "\n"))
		}
		for name, n := range run.reference.grown() {
			seen[name] += n
		}
	}
	seen["subflows"] = run.toldOf
	t.Logf("the packets' ends: %v", seen)
	for _, name := range []string{"encapsulated", "decapsulated", "relayed", "proxied", "native", "missed", "released", "eid-not-in-database", "not-in-policy", "subflows"} {
		if c.Seeds >= 20 && seen[name] == 0 {
			t.Errorf("no packet was %s", name)
		}
	}
}

func newRival(name string, h conformance.Harness) *rival {
	return &rival{Harness: h, name: name, plane: h.Plane()}
}

func (c *contest) all() []*rival { return append([]*rival{c.reference}, c.engines...) }

// seed goes through the steps of a seed.
func (c *contest) seed(t *testing.T, steps int) error {
	c.did = nil
	settings := c.settings()
	for _, r := range c.all() {
		own := r.Settings()
		s := settings.Clone()
		s.Interfaces, s.LocalRLOCs = own.Interfaces, own.LocalRLOCs
		for i := range s.Interfaces {
			s.Interfaces[i].Instance = c.instance
		}
		r.before = nil
		if errs := r.plane.Apply(dataplane.Flush{MapCache: true, Database: true, Flows: true},
			dataplane.SetSettings{Settings: s}); errs != nil {
			return fmt.Errorf("%s: %v", r.name, errs)
		}
		r.before = tallyOf(r.plane.Counters())
	}
	c.note("settings %+v, Instance-ID %d of the site", settings, c.instance)
	operations := append(c.begin(), c.bindings.operations(40)...)
	for i := 0; i < steps || len(operations) > 0; i++ {
		if len(operations) == 0 && !chance(c.Rand, 25) {
			if err := c.packets(t); err != nil {
				return err
			}
			continue
		}
		if len(operations) == 0 {
			operations = append(c.bindings.operations(4), c.operation())
		}
		if err := c.apply(t, operations); err != nil {
			return err
		}
		operations = nil
	}
	return c.apply(t, c.drain()) // nothing waits at the end
}

func (c *contest) note(format string, arguments ...any) {
	c.did = append(c.did, fmt.Sprintf(format, arguments...))
}

// apply has all carry out operations, and compares what of them failed and which packets were released.
func (c *contest) apply(t *testing.T, operations []dataplane.Operation) error {
	c.note("apply %+v", operations)
	var wanted string
	for _, r := range c.all() {
		var failed []int
		for i, err := range r.plane.Apply(operations...) {
			if err != nil {
				failed = append(failed, i)
			}
		}
		got := fmt.Sprint(failed)
		if r == c.reference {
			wanted = got
		}
		if got != wanted {
			return fmt.Errorf("%s: of the operations %+v %s failed, of the reference's %s", r.name, operations, got, wanted)
		}
	}
	return c.compare(t)
}

// packets sends packets from one side and compares what comes of them.
func (c *contest) packets(t *testing.T) error {
	fromCore, burst := c.burst()
	for _, p := range burst {
		c.note("from core %t: %x", fromCore, p)
	}
	for _, r := range c.all() {
		send := r.SendFromSite
		if fromCore {
			send = r.SendFromCore
		}
		for _, p := range burst {
			send(t, p)
		}
	}
	return c.compare(t)
}

// compare holds what engines sent and counted against the reference.
func (c *contest) compare(t *testing.T) error {
	core, site := received(t, c.reference.ReceiveAtCore, -1), received(t, c.reference.ReceiveAtSite, -1)
	subflows := c.reference.subflows(0)
	c.toldOf += uint64(len(subflows))
	for _, r := range c.engines {
		if err := sameFrames("the core", core, received(t, r.ReceiveAtCore, len(core))); err != nil {
			return fmt.Errorf("%s: %w; counters %v, the reference's %v", r.name, err, r.grown(), c.reference.grown())
		}
		if err := sameFrames("the site", site, received(t, r.ReceiveAtSite, len(site))); err != nil {
			return fmt.Errorf("%s: %w; counters %v, the reference's %v", r.name, err, r.grown(), c.reference.grown())
		}
		if err := errors.Join(c.compareCounters(r), compareSubflows(subflows, r)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// received returns so many packets in order of their octets, all that are there when most is below 0. ICMP errors are
// left out.
func received(t *testing.T, receive func(testing.TB) ([]byte, bool), most int) (packets []string) {
	for silences := 0; most < 0 && silences == 0 || len(packets) < most && silences < lossPatience; {
		p, ok := receive(t)
		switch {
		case !ok:
			silences++
		case !isAnswer(p):
			packets = append(packets, string(withoutFreeFields(p)))
		}
	}
	slices.Sort(packets)
	return packets
}

func sameFrames(where string, wanted, got []string) error {
	if slices.Equal(wanted, got) {
		return nil
	}
	var text strings.Builder
	for _, p := range wanted {
		if !slices.Contains(got, p) {
			text.WriteString("\n  missing " + hex.EncodeToString([]byte(p)))
		}
	}
	for _, p := range got {
		if !slices.Contains(wanted, p) {
			text.WriteString("\n  too much " + hex.EncodeToString([]byte(p)))
		}
	}
	return fmt.Errorf("%d packets at %s, the reference sent %d%s", len(got), where, len(wanted), &text)
}

// compareCounters waits until the counters of an engine are those of the reference.
func (c *contest) compareCounters(r *rival) error {
	wanted := without(c.reference.grown(), r.except)
	got := without(r.grown(), r.except)
	for deadline := time.Now().Add(patience); !maps.Equal(got, wanted); got = without(r.grown(), r.except) {
		if time.Now().After(deadline) {
			return fmt.Errorf("counters %v, the reference's %v", got, wanted)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// tally are counters that must be the same, by name, without those that are 0.
type tally map[string]uint64

func tallyOf(c dataplane.Counters) tally {
	t := tally{
		"encapsulated": c.EncapsulatedPackets, "encapsulated-octets": c.EncapsulatedOctets,
		"decapsulated": c.DecapsulatedPackets, "decapsulated-octets": c.DecapsulatedOctets,
		"relayed": c.RelayedPackets, "relayed-octets": c.RelayedOctets,
		"proxied": c.ProxiedPackets, "native": c.NativePackets, "missed": c.MissPackets, "released": c.ReleasedPackets,
		"waiting": c.WaitingPackets,
	}
	maps.Copy(t, c.Drops)
	return t
}

// grown is how much the counters grew since the seed began.
func (r *rival) grown() tally {
	now := tallyOf(r.plane.Counters())
	for name := range now {
		if now[name] -= r.before[name]; now[name] == 0 {
			delete(now, name)
		}
	}
	return now
}

func without(t tally, names []string) tally {
	for _, name := range names {
		delete(t, name)
	}
	return t
}

// withoutFreeFields is a packet without what engines may choose in the headers that they make.
func withoutFreeFields(packet []byte) []byte {
	p := bytes.Clone(packet)
	for rest := p; ; {
		udp := 0
		switch {
		case len(rest) >= 36 && rest[0] == 0x45 && rest[9] == 17:
			udp = 20
		case len(rest) >= 56 && rest[0]>>4 == 6 && rest[6] == 17:
			udp = 40
		}
		if udp == 0 || !isTunnel(rest[udp:]) {
			return p
		}
		if udp == 20 {
			clear(rest[4:6]) // number
			clear(rest[10:12])
		} else {
			rest[1] &= 0xf0 // flow label
			clear(rest[2:4])
		}
		clear(rest[udp : udp+2])
		clear(rest[udp+6 : udp+8])
		if rest[udp+8]&0x80 != 0 {
			clear(rest[udp+9 : udp+12]) // nonce
		}
		rest = rest[udp+16:]
	}
}

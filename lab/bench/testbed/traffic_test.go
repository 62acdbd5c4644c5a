// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

// testLine builds the line of an arm that needs no daemon, with its generator and its sink.
func testLine(t *testing.T, a Arm) *Line {
	t.Helper()
	network := testnet.ForTest(t)
	l, err := NewLine(network, a)
	must(t, err)
	must(t, a.Build(context.Background(), nil, l))
	must(t, l.Attach())
	t.Cleanup(func() { must(t, l.close()) })
	return l
}

// Every packet arrives and is counted once, in skb and in frames, both families, one destination port or many.
func TestSinkCountsWhatTheGeneratorSends(t *testing.T) {
	for _, a := range []Arm{Routing, VXLAN, Redirect} {
		l := testLine(t, a)
		for _, p := range Pairs {
			for _, flows := range []uint32{1, manyFlows} {
				must(t, l.Aim(Stream{Pair: p, Flows: flows, Destinations: 1}))
				o, err := l.Traffic.Run(context.Background(), Limits{Frames: 2000, Burst: 16})
				if err != nil || o.Sent != 2000 || o.Received == 0 || o.elapsed <= 0 {
					t.Errorf("%s, %s, %d flows: %+v, %v", a.Name, p.Name, flows, o, err)
				}
			}
		}
	}
}

// Long packets arrive whole at a rate, and no more of them are sent than the rate allows.
func TestPaceOfLongPackets(t *testing.T) {
	l := testLine(t, Routing)
	for _, p := range Pairs {
		must(t, l.Aim(Stream{Pair: p, Flows: 1, Destinations: 1, Octets: 1388}))
		before, err := LinkOf(l.Dst, HostLink)
		must(t, err)
		o, err := l.Traffic.Pace(context.Background(), 10_000, 50*time.Millisecond)
		must(t, err)
		after, err := LinkOf(l.Dst, HostLink)
		must(t, err)
		if o.Sent == 0 || o.Sent > 510 || o.Lost() > 0 {
			t.Errorf("%s: %+v", p.Name, o)
		}
		octets := after.Statistics.RxBytes - before.Statistics.RxBytes
		if want := o.Received * (1388 + EthernetOctets); octets < want || octets > want+2000 {
			t.Errorf("%s: %d octets arrived, want %d", p.Name, octets, want)
		}
	}
}

// The sink is able to fail: packets with another TTL, another address, another port or a wrong checksum than was sent.
func TestSinkTellsWrongPackets(t *testing.T) {
	l := testLine(t, Routing)
	for name, spoil := range map[string]func(*trafficBenchSettings){
		"TTL":    func(s *trafficBenchSettings) { s.Ttl++ },
		"source": func(s *trafficBenchSettings) { s.Packet[15]++ },
		"length": func(s *trafficBenchSettings) { s.Packet[3]++ },
	} {
		must(t, l.Aim(Stream{Pair: Pairs[0], Flows: 1, Destinations: 1}))
		spoil(&l.Traffic.Settings)
		if _, err := l.Traffic.Run(context.Background(), Limits{Frames: 64, Burst: 16}); err == nil || !strings.Contains(err.Error(), "arrived changed") {
			t.Errorf("%s: got %v, want that packets arrived changed", name, err)
		}
	}
}

func TestLossIsCounted(t *testing.T) {
	l := testLine(t, Routing)
	must(t, l.Aim(Stream{Pair: Pairs[0], Flows: 1, Destinations: 1}))
	must(t, l.Dec.SetUp(SiteLink, false))
	o, err := l.Traffic.Run(context.Background(), Limits{Frames: 64, Burst: 16})
	if err != nil || o.Sent != 64 || o.Lost() != 64 {
		t.Errorf("%+v, %v; want 64 packets lost", o, err)
	}
}

const manyFlows = 1000

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// The ETR in namespaces: an RLOC that changes during a TCP transfer (RFC 9301 s.6.1), and
// a locator that its site calls down by its Locator-Status-Bit (RFC 9300 s.10).

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

// reconfigure writes another file and has it read.
func (n *lispNetwork) reconfigure(name, configuration string) {
	n.t.Helper()
	n.must(os.WriteFile(n.file(name), []byte(configuration), 0o600))
	_, err := n.client(name).Reload(n.t.Context())
	n.must(err)
}

// withRLOCs gives 10.2.0.0/24 these locators.
func (n *lispNetwork) withRLOCs(rlocs string) string {
	return strings.Replace(n.xtr(2), "{eid: 10.2.0.0/24}", "{eid: 10.2.0.0/24, rlocs: ["+rlocs+"]}", 1)
}

func TestTCPGoesOnThroughAnRLOCChange(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", n.withRLOCs("{address: 172.16.2.2}"))
	n.awaitRegistrations(4)
	core := n.watchCore("xtr1")
	transferred := make(chan error, 1)
	var result testnet.TCPResult
	go func() {
		var err error
		result, err = testnet.TCP{
			Client: n.at["host1"], Server: n.at["host2"], Source: testSite{1}.host4(), Destination: testSite{2}.host4(), Duration: 3 * time.Second,
		}.Run(t.Context())
		transferred <- err
	}()
	n.await("the transfer is under way", func(context.Context) bool { count, _, _ := core.to("172.16.2.2"); return count > 1000 })
	changed := time.Now()
	n.reconfigure("xtr2", n.withRLOCs("{address: '2001:db8:2::2'}"))
	n.must(<-transferred)
	_, first, _ := core.to("2001:db8:2::2")
	_, _, last := core.to("172.16.2.2")
	if first.IsZero() || result.Octets == 0 {
		t.Fatalf("the transfer did not move to the new RLOC: %+v", result)
	}
	t.Logf("reload to the first packet to the new RLOC: %s; to the last one to the old RLOC: %s; %.2f Gbit/s over all",
		first.Sub(changed), last.Sub(changed), result.BitsPerSecond/1e9)
}

// TestStatusBitReachesThePeer: the mapping system is dead, so that data packets alone can
// tell that a locator is down.
func TestStatusBitReachesThePeer(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	bits := func(configuration string) string {
		return strings.Replace(configuration, "datapath:\n", "datapath:\n  data-header: {locator-status-bits: true}\n", 1)
	}
	n.run("ms", n.mappingSystem())
	n.run("xtr1", bits(n.xtr(1)))
	n.run("xtr2", bits(n.withRLOCs("{address: 172.16.2.2}, {address: '2001:db8:2::2', priority: 2}")))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 3)
	n.kill("ms")
	pinging := n.startPinging()
	events, stop := n.followEvents("xtr1")
	defer stop()
	time.Sleep(200 * time.Millisecond)
	n.reconfigure("xtr2", bits(n.withRLOCs("{address: 172.16.2.2, reachable: false}, {address: '2001:db8:2::2', priority: 2}")))
	down := events("locator-down")
	if down.RLOC != "172.16.2.2" || down.Reason != "status-bit" {
		t.Errorf("event %+v", down)
	}
	core := n.watchCore("xtr1")
	n.await("traffic by the other locator", func(context.Context) bool { count, _, _ := core.to("2001:db8:2::2"); return count > 10 })
	n.reconfigure("xtr2", bits(n.withRLOCs("{address: 172.16.2.2}, {address: '2001:db8:2::2', priority: 2}")))
	up := events("locator-up")
	if up.RLOC != "172.16.2.2" {
		t.Errorf("event %+v", up)
	}
	pinging.end("a status bit that fell and rose")
}

// TestTrafficSplitsByWeights: locators of one priority with weights 10 and 15 share random
// flows 40:60, within 5 points over 1,000 and 1.5 over 20,000.
func TestTrafficSplitsByWeights(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtr(1))
	n.run("xtr2", n.withRLOCs("{address: 172.16.2.2, weight: 10}, {address: '2001:db8:2::2', weight: 15}"))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 3)
	core := n.watchCore("xtr1")
	sent := 0
	for _, c := range []struct {
		flows  int
		points float64
	}{{1000, 5}, {20000, 1.5}} {
		for ; sent < c.flows; sent++ {
			from := netip.AddrPortFrom(one.host4(), uint16(20000+sent))
			to := netip.AddrPortFrom(two.host4(), uint16(1+rand.N(60000)))
			conn, err := n.at["host1"].DialUDP(from, to)
			n.must(err)
			_, _ = conn.Write([]byte("a flow")) // no process listens: ICMP may say so
			conn.Close()
		}
		share := 0.0
		n.await("all flows in the core", func(context.Context) bool {
			by4, _, _ := core.to("172.16.2.2")
			by6, _, _ := core.to("2001:db8:2::2")
			share = 100 * float64(by4) / float64(by4+by6)
			return by4+by6 >= c.flows
		})
		t.Logf("%d flows: %.2f %% to the locator of weight 10, want 40", c.flows, share)
		if share < 40-c.points || share > 40+c.points {
			t.Errorf("%d flows: %.2f %%, want 40 within %.1f points", c.flows, share, c.points)
		}
	}
}

// TestNonceFileOutlivesACrash: a router whose nonces are ahead of its clock, as after a clock that was set back, goes on
// registering when it has its file, and is refused without.
func TestNonceFileOutlivesACrash(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	file := filepath.Join(n.dir, "nonce")
	ahead := uint64(time.Now().Add(365 * 24 * time.Hour).UnixNano())
	n.must(os.WriteFile(file, []byte(fmt.Sprintln(ahead)), 0o600))
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), "  local-eids:", "  nonce-file: "+file+"\n  local-eids:", 1))
	n.awaitRegistrations(2)
	taken := func(more func() bool) {
		t.Helper()
		before := n.counter("ms", "map_register_received_total")
		n.kill("xtr1")
		n.start("xtr1")
		n.await("the Map-Server has an opinion", func(context.Context) bool {
			return n.counter("ms", "map_register_received_total") > before || n.counter("ms", "refused_replay_total") > 0
		})
		if !more() {
			t.Errorf("%d Map-Registers more were taken, %d refused as replays",
				n.counter("ms", "map_register_received_total")-before, n.counter("ms", "refused_replay_total"))
		}
	}
	taken(func() bool { return n.counter("ms", "refused_replay_total") == 0 })
	text, err := os.ReadFile(file)
	n.must(err)
	if kept, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil || kept <= ahead {
		t.Errorf("the file has %q, it began with %d", text, ahead)
	}
	n.must(os.Remove(file))
	taken(func() bool { return n.counter("ms", "refused_replay_total") > 0 })
}

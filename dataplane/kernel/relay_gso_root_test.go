// SPDX-License-Identifier: Apache-2.0

// TCP's GSO packets that miss at an RTR. The test needs root.

package kernel

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/internal/testnet"
)

// TestTCPMissesAtRelay takes the mapping from an RTR again and again while TCP goes by it, and gives it back: GSO packets miss, are cut
// into packets on their way through loci0, wait, are counted, and leave in order before those that come behind them. Few segments are
// out of order, as a sender that moves between processors makes some in any case.
func TestTCPMissesAtRelay(t *testing.T) {
	for name, outer := range relayFamilies {
		for _, inner := range []func(int, int) netip.Addr{siteAddress4, siteAddress6} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := newRelayed(t, outer[0], outer[1], dataplane.HookTC)
				settings := n.rtr.Settings()
				settings.Wait.PacketsPerDestination, settings.Wait.PacketsTotal = 1<<14, 1<<14 // none is dropped
				n.rtr.apply(t, append(n.tables, dataplane.SetSettings{Settings: settings})...)
				stop, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					n.interrupt(t, stop)
				}()
				result, err := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: inner(0, 10), Destination: inner(1, 10), Octets: 24 << 20, Verify: true,
					Timeout: 30 * time.Second}.Run(t.Context())
				close(stop)
				<-done
				n.told(t, "TCP", err)
				c := n.rtr.Counters()
				t.Logf("%.1f Gbit/s; %d packets missed, %d waited, %d were relayed;%s", result.BitsPerSecond/1e9, c.MissPackets, c.ReleasedPackets, c.RelayedPackets, n.report())
				if c.MissPackets == 0 || c.ReleasedPackets <= c.MissPackets {
					t.Errorf("%d packets missed and %d waited, want more of these: GSO packets are cut", c.MissPackets, c.ReleasedPackets)
				}
				lost := c.Drops["waiting-packets-limit"] + c.Drops["released-without-mapping"] + c.Drops["backlog-source-limit"]
				late := outOfOrder(t, n.hosts[1])
				t.Logf("%d segments came out of order, %d were dropped", late, lost)
				if lost == 0 && uint64(late)*1000 > c.ReleasedPackets {
					t.Errorf("%d segments came out of order, and none was dropped;%s", late, n.report())
				}
			})
		}
	}
}

// interrupt takes the RTR's mappings for the EIDs of site B for some milliseconds, until stop, each time when none waits any more.
func (n *relayed) interrupt(t *testing.T, stop <-chan struct{}) {
	for {
		for _, prefix := range sitePrefixes(1) {
			n.rtr.Apply(dataplane.DeleteMapping{Prefix: prefix})
		}
		time.Sleep(3 * time.Millisecond)
		for _, err := range n.rtr.Apply(n.tables...) {
			t.Errorf("apply: %v", err)
		}
		for pause := 10 * time.Millisecond; n.rtr.Counters().WaitingPackets > 0 || pause > 0; pause = 0 {
			select {
			case <-stop:
				return
			case <-time.After(max(pause, time.Millisecond)):
			}
		}
	}
}

// outOfOrder is how many TCP segments a host had to keep because earlier ones were missing.
func outOfOrder(t *testing.T, host *testnet.Namespace) (count int) {
	t.Helper()
	var text []byte
	must(t, host.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	}))
	lines := strings.Split(string(text), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	count, err := strconv.Atoi(values[slices.Index(names, "TCPOFOQueue")])
	must(t, err)
	return count
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// Crashes of a router behind a NAT, and of the server that is its RTR and Map-Server, under a hundred pings a second.
// Real daemons, real packets.

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNATCrashesLoseNothing: with the data plane in the kernel a ping each 10 ms is answered while the router behind a
// NAT, and then its RTR and Map-Server, are killed and start again. In user space pings are answered again after the
// restart, when the RTR has answered one keepalive at most. TestRestartsBehindNAT in package control has the time.
func TestNATCrashesLoseNothing(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, _ := natNetwork(t, engine, 1)
		n.run("ms", strings.Replace(n.natServer(), "map-server:\n", "map-server:\n  state-directory: "+filepath.Join(n.dir, "state")+"\n", 1))
		n.run("xtr1", n.natXTR(1))
		n.run("xtr2", n.xtr(2))
		one, two := testSite{1}, testSite{2}
		n.awaitPing("host1", one.host4(), two.host4())
		n.awaitPing("host2", two.host4(), one.host4())
		pinging := n.startPinging()
		stop := sync.OnceValue(func() (sum [2]int) {
			close(pinging.stop)
			return <-pinging.sums
		})
		t.Cleanup(func() { stop() })
		for _, name := range []string{"xtr1", "ms"} {
			n.kill(name)
			time.Sleep(500 * time.Millisecond) // the kernel forwards without a daemon
			n.start(name)
			if engine != "kernel" {
				n.expectBackByOneKeepalive()
				continue
			}
			time.Sleep(natKeepalive + time.Second) // what the restart may break, the next keepalive shows
		}
		if sum := stop(); engine == "kernel" && sum[0] != sum[1] {
			t.Errorf("%d of %d pings answered during crashes of the router and its RTR", sum[1], sum[0])
		}
	})
}

// expectBackByOneKeepalive waits until the RTR has its bindings and host1 is reached. An RTR that started again has
// them by the first keepalive that it answers.
func (n *lispNetwork) expectBackByOneKeepalive() {
	n.t.Helper()
	before := n.keepalivesAnswered()
	n.await("the RTR has bindings", func(ctx context.Context) bool {
		nat, err := n.client("ms").NAT(ctx)
		return err == nil && nat.BindingCount == 2
	})
	if count := n.keepalivesAnswered() - before; count > 1 {
		n.t.Errorf("the RTR answered %d keepalives until it had bindings", count)
	}
	n.awaitPing("host2", testSite{2}.host4(), testSite{1}.host4())
}

// keepalivesAnswered is how many the RTR answered since it started.
func (n *lispNetwork) keepalivesAnswered() uint64 {
	n.t.Helper()
	counters, err := n.client("ms").Counters(n.t.Context())
	n.must(err)
	return counters.Control["nat_keepalive_answered_total"]
}

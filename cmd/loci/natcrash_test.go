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

	"loci/internal/testnet"
)

// TestNATCrashesLoseNothing: with the data plane in the kernel a ping each 10 ms is answered while the router behind a
// NAT, and then its RTR and Map-Server, are killed and start again. In user space pings are answered again after the
// restart: within the keepalive and a second on an idle machine, four here.
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
				n.awaitWithin(natKeepalive+4*time.Second, "host1 is reached again", func(ctx context.Context) bool {
					result, err := testnet.Ping{Namespace: n.at["host2"], Source: two.host4(), Destination: one.host4(), Timeout: 200 * time.Millisecond}.Run(ctx)
					return err == nil && result.Received == 1
				})
				continue
			}
			time.Sleep(natKeepalive + time.Second) // what the restart may break, the next keepalive shows
		}
		if sum := stop(); engine == "kernel" && sum[0] != sum[1] {
			t.Errorf("%d of %d pings answered during crashes of the router and its RTR", sum[1], sum[0])
		}
	})
}

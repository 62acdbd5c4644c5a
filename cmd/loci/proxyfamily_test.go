// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// TestProxyETROfAnotherFamily: a proxy ETR whose RLOC is IPv4 takes IPv6 packets to destinations outside LISP, and the reverse.
// Shows RFC 6832 s.6 (3), RFC 6832 s.6.1 (3).
func TestProxyETROfAnotherFamily(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	one := testSite{1}
	for _, c := range []struct{ proxy, destination string }{{"172.16.2.2", "2001:db8:77::1"}, {"2001:db8:2::2", "198.51.100.77"}} {
		n.run("xtr1", strings.Replace(n.xtr(1), "itr: {", "itr: {proxy-etrs: [{address: '"+c.proxy+"'}], ", 1))
		n.awaitRegistrations(2)
		core := n.watchCore("xtr1")
		source, destination := one.host4(), netip.MustParseAddr(c.destination)
		if destination.Is6() {
			source = one.host6()
		}
		_, err := testnet.Ping{Namespace: n.at["host1"], Source: source, Destination: destination, Count: 5, Timeout: 300 * time.Millisecond}.Run(t.Context())
		n.must(err)
		n.await("five packets at the proxy ETR "+c.proxy, func(context.Context) bool { count, _, _ := core.to(c.proxy); return count == 5 })
		var cache []api.MapCacheEntry
		n.show("xtr1", &cache, "map-cache", c.destination)
		if len(cache) != 1 || !cache[0].ProxyETR || cache[0].Locators[0].RLOC.String() != c.proxy {
			t.Errorf("map-cache: %+v", cache)
		}
		n.stop("xtr1", n.daemons["xtr1"])
	}
}

// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// daemonOf answers at a control socket.
func daemonOf(t *testing.T, handler http.HandlerFunc) *api.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return api.NewClient(socket)
}

// TestPeersAreFoundWithinBounds: of tables of any size so many entries are read, and none for no peers.
func TestPeersAreFoundWithinBounds(t *testing.T) {
	locators := func(i int) []api.Locator {
		return api.LocatorsOf(lisp.LocatorSet{{RLOC: lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})), Priority: 1, Weight: 1, Reachable: true}})
	}
	for _, c := range []struct {
		peers, caches, registered  int // routers wanted, of the map-cache, of registrations
		wantPeers, wantRemote, ask int // ask: how many lists are asked for
	}{
		{0, 3, 3, 0, 0, 0}, {2, 3, 3, 2, 2, 1}, {4, 3, 3, 4, 3, 2}, {9, 3, 3, 6, 3, 2},
	} {
		asked := 0
		n := &netcheck{NetcheckOptions: NetcheckOptions{Peers: c.peers}}
		n.client = daemonOf(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err != nil || limit != entriesRead*c.peers {
				t.Errorf("%d peers: asked for %s", c.peers, r.URL)
			}
			if r.URL.Path == api.PathMapCache {
				list := []api.MapCacheEntry{}
				for i := range c.caches {
					list = append(list, api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i)), Locators: locators(i)})
				}
				_ = jsondoc.Write(w, list)
				return
			}
			list := []api.Registration{}
			for i := range c.registered {
				list = append(list, api.Registration{EIDPrefix: lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/48", i)), Locators: locators(100 + i), InForce: true})
			}
			_ = jsondoc.Write(w, list)
		})
		if err := n.findPeers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(n.peers) != c.wantPeers || len(n.remote) != c.wantRemote || asked != c.ask {
			t.Errorf("%d peers: found %d and %d EID-Prefixes by %d lists, want %+v", c.peers, len(n.peers), len(n.remote), asked, c)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/internal/testnet"
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

func TestClockIsJudged(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		now, startedAt time.Time
		synchronised   bool
		outcome        Outcome
		words          string
	}{
		"right":            {now, now.Add(-time.Hour), true, OutcomeOK, ""},
		"not synchronised": {now, now.Add(-time.Hour), false, OutcomeWarning, "does not know it to be synchronised"},
		"set back":         {now, now.Add(time.Minute), false, OutcomeFailed, "set back since the daemon started"},
		"of 1970":          {time.Unix(77, 0), time.Unix(0, 0), true, OutcomeFailed, "years behind"},
	} {
		s := clockStep(c.now, c.startedAt, c.synchronised)
		if s.Outcome != c.outcome || !strings.Contains(s.Reason, c.words) || s.Detail != c.now.Format(time.RFC3339) || (s.Remedy != "") != (c.outcome != OutcomeOK) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	n := &netcheck{report: &Report{}} // as this kernel tells it
	n.checkClock()
	if s := n.report.Steps[0]; s.Name != CheckClock || s.Outcome == OutcomeFailed {
		t.Errorf("of this machine: %+v", s)
	}
}

// TestChecksumOffloadByDriver: senders behind virtual site interfaces are warned of; other interfaces, and those that are not there,
// are not.
func TestChecksumOffloadByDriver(t *testing.T) {
	testnet.RequireRoot(t)
	network := testnet.ForTest(t)
	router, err := network.Namespace("router")
	if err != nil {
		t.Fatal(err)
	}
	host, err := network.Namespace("host")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"site0", "core0", "port0"} {
		if err := testnet.Connect(testnet.End{Namespace: router, Name: link}, testnet.End{Namespace: host, Name: link}); err != nil {
			t.Fatal(err)
		}
	}
	if err := router.AddBridge("br0", "port0"); err != nil {
		t.Fatal(err)
	}
	for engine, veth := range map[string]string{"kernel": "warning", engineUser: "ok"} {
		n := &netcheck{status: api.Status{Engine: engine}, report: &Report{}}
		for name, side := range map[string]string{"site0": "site", "core0": "core", "br0": "site", "away0": "site"} {
			n.status.Interfaces = append(n.status.Interfaces, api.Interface{Name: name, Side: side})
		}
		if err := router.Do(func() error { n.checkChecksums(); return nil }); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, s := range n.report.Steps {
			told = append(told, fmt.Sprint(s.Name, " ", s.Subject, " ", s.Outcome, ", ", s.Detail))
			if (s.Outcome == OutcomeWarning) != strings.Contains(s.Reason, "leave checksums to a device") || (s.Outcome == OutcomeWarning) != (s.Remedy != "") {
				t.Errorf("%+v", s)
			}
		}
		slices.Sort(told)
		want := []string{"checksum-offload br0 ok, driver bridge", "checksum-offload site0 " + veth + ", driver veth"}
		if !slices.Equal(told, want) {
			t.Errorf("engine %s: told %q, want %q", engine, told, want)
		}
	}
}

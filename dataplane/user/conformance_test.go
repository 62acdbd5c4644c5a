// SPDX-License-Identifier: Apache-2.0

// The conformance suite of engines, with the host's network around the engine. The tests need root.

package user

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/behindnat"
	"loci/dataplane/conformance/flows"
	"loci/dataplane/conformance/links"
	"loci/internal/testnet"
)

const conformanceMappings = 300

// engineHarness is a conformance.Harness.
type engineHarness struct {
	*links.Network
	engine *Engine
	ahead  atomic.Int64 // of the tables' clock
}

func (h *engineHarness) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

func newHarness(t testing.TB) conformance.Harness { return newHarnessOn(t, links.New(t)) }

func newHarnessOn(t testing.TB, n *links.Network) conformance.Harness {
	t.Helper()
	h := &engineHarness{Network: n}
	xtr := h.Router
	must(t, xtr.Do(func() (err error) {
		h.engine, err = Open(Options{now: h.now, Mappings: conformanceMappings, Log: slog.New(slog.DiscardHandler)})
		return err
	}))
	t.Cleanup(func() {
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
	})
	for name, value := range map[string]string{"ipv4.conf.loci0.rp_filter": "2", "ipv4.conf.loci0.accept_local": "1", "ipv4.conf.loci0.forwarding": "1", "ipv6.conf.loci0.forwarding": "1"} {
		must(t, xtr.SetSysctl("net."+name, value))
	}
	must(t, xtr.SetOffload(links.Core, testnet.UDPSegmentation, false)) // the suite reads single packets ...
	must(t, xtr.SetOffload(links.Core, testnet.TxChecksum, false))      // ... with whole checksums
	routeIntoTUN(t, xtr, h.engine.tun.Index())
	return h
}

func (h *engineHarness) Plane() dataplane.Plane { return h.engine }
func (h *engineHarness) MappingLimit() int      { return conformanceMappings }

func (h *engineHarness) Settings() dataplane.Settings {
	return h.Network.Settings(h.engine.Settings(), dataplane.HookAuto)
}

// Pass sleeps, unless that is too long: then the tables' clock is moved.
func (h *engineHarness) Pass(d time.Duration) {
	if d < time.Minute {
		time.Sleep(d)
		return
	}
	h.ahead.Add(int64(d))
}

func (h *engineHarness) Raise(event dataplane.Event) { h.engine.model.Raise(event) }

// routeIntoTUN leads what comes in into the TUN, as the daemon does.
func routeIntoTUN(t testing.TB, xtr *testnet.Namespace, tun int) {
	t.Helper()
	const table = 4341
	for family, destination := range map[int]string{netlink.FAMILY_V4: "0.0.0.0/0", netlink.FAMILY_V6: "::/0"} {
		_, all, _ := net.ParseCIDR(destination)
		must(t, xtr.Netlink().RouteAdd(&netlink.Route{LinkIndex: tun, Dst: all, Table: table}))
		for _, from := range []string{links.Site, links.Core} { // from the core, for PITRs
			rule := netlink.NewRule()
			rule.Family, rule.Priority, rule.Table, rule.IifName = family, 1001, table, from
			must(t, xtr.Netlink().RuleAdd(rule))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }

func TestFlows(t *testing.T) { flows.Run(t, newHarness) }

// TestBehindNAT: one binding for all flows, and packets that a NAT64 lets pass.
func TestBehindNAT(t *testing.T) { behindnat.Run(t, newHarnessOn) }

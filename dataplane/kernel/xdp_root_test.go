// SPDX-License-Identifier: Apache-2.0

// Engines at the XDP hook, with real packets of real hosts. The tests need root.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
	"loci/internal/testnet"
)

// setSides puts all interfaces of both routers at a hook.
func (n *network) setSides(t *testing.T, hook dataplane.Hook) {
	t.Helper()
	for _, r := range n.routers {
		settings := r.Settings()
		for i := range settings.Interfaces {
			settings.Interfaces[i].Hook = hook
		}
		r.apply(t, dataplane.SetSettings{Settings: settings})
	}
}

// setHooks sets the settings of both routers again, with other hooks.
func (n *network) setHooks(t *testing.T, site, core dataplane.Hook) {
	t.Helper()
	for _, r := range n.routers {
		r.setHooks(t, site, core)
	}
}

func (r *router) setHooks(t *testing.T, site, core dataplane.Hook) {
	t.Helper()
	s := r.Settings()
	for i := range s.Interfaces {
		s.Interfaces[i].Hook = site
		if s.Interfaces[i].Side == dataplane.SideCore {
			s.Interfaces[i].Hook = core
		}
	}
	r.apply(t, dataplane.SetSettings{Settings: s})
	r.expectHooks(t, site, core)
}

func (r *router) expectHooks(t *testing.T, site, core dataplane.Hook) {
	t.Helper()
	for i, s := range r.InterfaceStates() {
		if want := [...]dataplane.Hook{site, core}[i]; !s.Present || s.Hook != want {
			t.Fatalf("interface %+v, want hook %v", s, want)
		}
	}
}

// takeFrames lets the hosts take XDP frames, for which the other end of a veth needs NAPI.
func (n *network) takeFrames(t *testing.T) {
	t.Helper()
	for i, host := range n.hosts {
		must(t, host.SetOffload("eth0", testnet.GRO, true))
		n.waitForFlag(t, i, "site0", takesFrames)
	}
}

const takesFrames = abi.InterfaceTakesFrames

// waitForFlag waits until router i knows that an interface can do something.
func (n *network) waitForFlag(t *testing.T, i int, name string, flag uint32) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if record, _ := n.routers[i].recordOf(t, name); record.Flags&flag == flag {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("interface %s of router %d never got the flag %#x", name, i, flag)
		}
	}
}

// runs counts how often a program has run since the kernel counts.
func (r *router) runs(t *testing.T, program string) uint64 {
	t.Helper()
	stats, err := r.program(t, program).Stats()
	must(t, err)
	return stats.RunCount
}

func countRuns(t *testing.T) {
	t.Helper()
	counting, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	must(t, err)
	t.Cleanup(func() { counting.Close() })
}

// TestHostsThroughXDP sends pings and TCP through both directions of all pairs, with XDP at both, or one, of the sides.
func TestHostsThroughXDP(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	countRuns(t)
	n.takeFrames(t)
	for _, host := range n.hosts {
		must(t, host.SetMTU("eth0", 1500-40-16))
	}
	const tc, xdp = dataplane.HookTC, dataplane.HookXDP
	for _, hooks := range [][2]dataplane.Hook{{xdp, xdp}, {tc, xdp}, {xdp, tc}, {tc, tc}} {
		n.setHooks(t, hooks[0], hooks[1])
		if hooks == [2]dataplane.Hook{xdp, tc} {
			for i := range n.routers {
				must(t, n.routers[1-i].ns.SetOffload("core0", testnet.GRO, true))
				n.waitForFlag(t, i, "core0", takesFrames)
			}
		}
		for _, p := range pairs {
			t.Run(fmt.Sprintf("site %v, core %v, %s", hooks[0], hooks[1], p.name), func(t *testing.T) {
				n.mapBoth(t, p.outer)
				n.pingThroughHooks(t, p, hooks)
				tcp := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: p.inner(0, 10), Destination: p.inner(1, 10), Octets: 16 << 20, Verify: true}
				result, err := tcp.Run(context.Background())
				if err != nil {
					t.Fatalf("tcp: %v; %s", err, n.report())
				}
				t.Logf("%.1f Gbit/s", result.BitsPerSecond/1e9)
			})
		}
	}
}

// pingThroughHooks demands that what XDP can do never reaches tc.
func (n *network) pingThroughHooks(t *testing.T, p pair, hooks [2]dataplane.Hook) {
	t.Helper()
	const count = 20
	ping := testnet.Ping{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 10), Count: 3}
	if result, err := ping.Run(context.Background()); err != nil || result.Received == 0 { // neighbours are known from here on
		t.Fatalf("ping: %+v, %v; %s", result, err, n.report())
	}
	before := [2]uint64{n.routers[0].runs(t, abi.ProgramSiteIngress), n.routers[0].runs(t, abi.ProgramCoreIngress)}
	ping.Count = count
	result, err := ping.Run(context.Background())
	if err != nil || result.Received != result.Sent {
		t.Fatalf("ping: %d of %d, %v; %s", result.Received, result.Sent, err, n.report())
	}
	for i, program := range []string{abi.ProgramSiteIngress, abi.ProgramCoreIngress} {
		took := n.routers[0].runs(t, program) - before[i]
		if hooks[i] == dataplane.HookXDP && took >= count || hooks[i] == dataplane.HookTC && took < count {
			t.Errorf("%s has run %d times for %d packets at hook %v", program, took, count, hooks[i])
		}
	}
}

// TestXDPSurvives demands that links at XDP hooks are adopted, replaced, and removed like those at tc.
func TestXDPSurvives(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	if n.routers[0].behindXDP(t) != 0 {
		t.Error("the XDP program is loaded before any interface is at XDP")
	}
	n.setHooks(t, dataplane.HookXDP, dataplane.HookXDP)
	r := n.routers[0]
	first := r.programAt(t, "core0")
	must(t, r.Close()) // as far as the kernel can tell, the daemon is gone
	if at := r.programAt(t, "core0"); at != first || at == 0 {
		t.Fatalf("program %d at core0 after the end of the process, was %d", at, first)
	}
	if r.behindXDP(t) == 0 {
		t.Error("no program decides anew after the end of the process")
	}
	r.open(t, Options{})
	r.expectHooks(t, dataplane.HookXDP, dataplane.HookXDP)
	if at := r.programAt(t, "core0"); at == first || at == 0 {
		t.Errorf("program %d at core0 after the next start, was %d: want another", at, first)
	}
	n.setHooks(t, dataplane.HookTC, dataplane.HookXDP)
	if at := r.programAt(t, "site0"); at != 0 {
		t.Errorf("program %d at site0, which is at tc now", at)
	}
	must(t, r.Detach(context.Background()))
	if at := r.programAt(t, "core0"); at != 0 {
		t.Errorf("program %d at core0 after the end of it all", at)
	}
}

// behindXDP is the program that decides anew, 0 for none.
func (r *router) behindXDP(t *testing.T) (id uint32) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins.DefaultDirectory, r.instance, "maps", abi.MapXDPPrograms), nil)
	must(t, err)
	defer m.Close()
	if err := m.Lookup(uint32(0), &id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	return id
}

// programAt is the XDP program of an interface, 0 for none.
func (r *router) programAt(t *testing.T, name string) uint32 {
	t.Helper()
	l, err := r.ns.Netlink().LinkByName(name)
	must(t, err)
	if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
		return xdp.ProgId
	}
	return 0
}

// TestXDPOfOthers leaves XDP to the program that was attached first, and works at tc.
func TestXDPOfOthers(t *testing.T) {
	t.Parallel()
	r := newLinks(t).open(t, 0, Options{})
	theirs, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, 2), asm.Return(), // XDP_PASS
	}})
	must(t, err)
	defer theirs.Close()
	l, err := r.ns.Netlink().LinkByName("core0")
	must(t, err)
	must(t, r.ns.Do(func() error {
		return netlink.LinkSetXdpFdWithFlags(l, theirs.FD(), unix.XDP_FLAGS_DRV_MODE)
	}))
	s := r.Settings()
	for i := range s.Interfaces {
		s.Interfaces[i].Hook = dataplane.HookXDP
	}
	r.apply(t, dataplane.SetSettings{Settings: s})
	r.expectHooks(t, dataplane.HookXDP, dataplane.HookTC)
	if state := r.InterfaceStates()[1]; !strings.Contains(state.Warning, "a foreign XDP program") {
		t.Errorf("warning %q", state.Warning)
	}
	info, err := theirs.Info()
	must(t, err)
	if id, _ := info.ID(); r.programAt(t, "core0") != uint32(id) {
		t.Errorf("program %d at core0, theirs is %d", r.programAt(t, "core0"), id)
	}
}

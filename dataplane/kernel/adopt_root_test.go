// SPDX-License-Identifier: Apache-2.0

// What outlives a process: an engine is killed and another one adopts its tables
// while packets flow; ends of every kind leave what they shall. The tests need root.

package kernel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/bootclock"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
	"loci/lisp"
)

// engineEnvironment makes the test binary be an engine instead: open, do what its
// value says, print "ready", and wait to be killed.
const engineEnvironment = "LOCI_TEST_BE_ENGINE"

// captureEnvironment makes it capture what the instance drops that its value names, instead.
const captureEnvironment = "LOCI_TEST_CAPTURE"

func TestMain(m *testing.M) {
	for name, be := range map[string]func(string) error{engineEnvironment: beEngine, captureEnvironment: beCapture} {
		todo, ok := os.LookupEnv(name)
		if !ok {
			continue
		}
		if err := be(todo); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func beCapture(instance string) error {
	c, err := observe.OpenCapture("", instance)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Close()
}

func beEngine(todo string) error {
	instance, fill, _ := strings.Cut(todo, " ")
	e, err := Open(Options{Instance: instance, Logger: testLogger()})
	if err != nil {
		return err
	}
	if fill == "fill" {
		if err := errors.Join(e.Apply(slices.Concat(siteOperations(0), mappingOf(1, rloc4),
			boundFlows())...)...); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return e.Close()
}

// startEngine starts an engine in a process of its own and waits until it is ready.
func (r *router) startEngine(t *testing.T, todo string) *exec.Cmd {
	t.Helper()
	return r.startProcess(t, engineEnvironment+"="+r.instance+" "+todo)
}

// startCapture starts a capture in a process of its own and waits until it captures.
func (r *router) startCapture(t *testing.T) *exec.Cmd {
	t.Helper()
	return r.startProcess(t, captureEnvironment+"="+r.instance)
}

// startProcess starts the test binary with a variable that says what it is.
func (r *router) startProcess(t *testing.T, variable string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	must(t, err)
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, r.ns.Start(cmd))
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%s in a process: %q, %v", variable, line, err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // says that it was killed
}

// TestKillAndAdopt kills the engine of router A and starts it again, twice, under
// 100 pings a second.
func TestKillAndAdopt(t *testing.T) {
	n := newLinks(t)
	a, b := n.routers[0], n.open(t, 1, Options{})
	b.apply(t, mappingOf(0, rloc4)...)
	process := a.startEngine(t, "fill")
	for _, family := range []func(int, int) netip.Addr{siteAddress4, siteAddress6} {
		n.expectPings(t, n.hosts[0], family(0, 10), family(1, 10))
	}
	pings := make(chan testnet.PingResult, 1)
	failed := make(chan error, 1)
	go func() {
		result, err := testnet.Ping{Namespace: n.hosts[0], Destination: siteAddress4(1, 10), Count: 300, Interval: 10 * time.Millisecond}.Run(t.Context())
		pings <- result
		failed <- err
	}()
	tap, err := a.ns.Netlink().LinkByName(tap.DefaultName)
	must(t, err)
	a.ownEIDs(t, tap, netip.PrefixFrom(siteAddress4(0, 1), 24))
	var heard time.Time // the programs are loaded again after that, which may take minutes
	for range 2 {
		time.Sleep(300 * time.Millisecond) // pings with the engine
		kill(t, process)
		time.Sleep(300 * time.Millisecond) // and without
		result, err := testnet.Ping{Namespace: a.ns, Source: siteAddress4(0, 1), Destination: siteAddress4(1, 10), Count: 3}.Run(t.Context())
		if err != nil || result.Received != 3 {
			t.Errorf("the router's own EID without an engine: %d of 3 pings, %v", result.Received, err)
		}
		heard = time.Now()
		process = a.startEngine(t, "")
	}
	result := <-pings
	must(t, <-failed)
	if result.Lost() != 0 || result.Refused != 0 || result.Sent != 300 {
		t.Errorf("of %d pings %d were lost", result.Sent, result.Lost())
	}
	kill(t, process)
	a.open(t, Options{})
	expectBoundFlows(t, a.Engine)
	entry, ok := a.Mapping(sitePrefixes(1)[0])
	if !ok || entry.Usage.Packets < 300 || entry.Usage.LastUsedAt.IsZero() || time.Since(entry.CreatedAt) < time.Second ||
		entry.ExpiresAt.Sub(entry.CreatedAt).Round(time.Second) != 10*time.Minute {
		t.Errorf("adopted mapping %+v", entry)
	}
	if at := maps.Collect(a.Sources())[lisp.RLOCFromAddr(rloc4(1))]; heard.Sub(at) > time.Minute {
		t.Errorf("packets last came from %s at %v after a restart, want %v", rloc4(1), at, heard)
	}
}

// TestTimesAfterAClockWasSet sets the time of day while nothing is applied any more, as on a router whose tables do not change.
func TestTimesAfterAClockWasSet(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	n.mapBoth(t, rloc4)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	prefix, rloc := sitePrefixes(1)[0], lisp.RLOCFromAddr(rloc4(1))
	for _, ways := range []func() []time.Time{
		func() []time.Time {
			for m := range a.Mappings() {
				if m.Mapping.Prefix == prefix {
					return []time.Time{m.CreatedAt, m.ExpiresAt.Add(-10 * time.Minute), m.Usage.LastUsedAt}
				}
			}
			return nil
		},
		func() []time.Time {
			m, _ := a.Mapping(prefix)
			return []time.Time{m.CreatedAt, m.ExpiresAt.Add(-10 * time.Minute), m.Usage.LastUsedAt}
		},
		func() []time.Time { return []time.Time{maps.Collect(a.Sources())[rloc]} },
	} {
		for _, step := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
			// As if it had been another time of day when the clocks were compared last.
			atomic.AddUint64(&a.store.Words[store.WordClockOffset], uint64(-step))
			now := time.Now()
			for i, at := range ways() {
				if at.Sub(now).Abs() > time.Minute {
					t.Errorf("set by %v: time %d is %v: it is %v now", step, i, at, now)
				}
			}
		}
	}
}

// TestSourcesOfAnEngineThatEnds has it closed while a reader goes through its sources.
func TestSourcesOfAnEngineThatEnds(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	_, boot, err := bootclock.Sample()
	must(t, err)
	for i := range 3 {
		must(t, a.store.Map(abi.MapSources).Put(abi.KeyOf(lisp.RLOCFromAddr(rloc4(i))), uint64(boot)))
	}
	told := 0
	for _, at := range a.Sources() {
		if told++; told == 1 {
			must(t, a.Close())
		}
		if time.Since(at).Abs() > time.Minute {
			t.Errorf("heard at %v: it is %v now", at, time.Now())
		}
	}
	if told == 0 {
		t.Error("no source was told")
	}
}

// TestRestartKeepsEverything compares what an engine says before Close and after the next Open.
func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	many := make([]lisp.Locator, lisp.MaxLocators)
	for i := range many {
		many[i] = lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)})),
			Priority: uint8(i), Weight: 3, MulticastPriority: 255, MulticastWeight: 1, Local: i%2 == 0, Probed: i == 3, Reachable: i%5 != 0}
	}
	set, err := lisp.NewLocatorSet(many...)
	must(t, err)
	created := time.Now().Add(-time.Hour)
	a.apply(t, mappingOf(1, rloc6)...)
	a.apply(t,
		dataplane.PutMapping{Entry: dataplane.MapCacheEntry{CreatedAt: created, ExpiresAt: created.Add(24 * time.Hour), Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("[70000]10.9.0.0/17"), Locators: set, TTLMinutes: 1440, Authoritative: true, Version: 77}}},
		dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Static: true, Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("0.0.0.0/0"), Action: lisp.ActionNativelyForward, TTLMinutes: lisp.TTLUnlimited}}},
		dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(rloc6(1)), State: dataplane.LocatorDown},
	)
	a.apply(t, boundFlows()...)
	before := describe(a.Engine)
	bits, version := a.hear(t)
	must(t, a.Close())
	if errs := a.Apply(dataplane.Flush{MapCache: true}); len(errs) != 1 || !errors.Is(errs[0], dataplane.ErrClosed) {
		t.Errorf("apply after Close: %v", errs)
	}
	a.open(t, Options{})
	a.expectHeard(t, bits, false)
	a.expectHeard(t, version, true)
	if after := describe(a.Engine); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	n.expectPings(t, a.ns, rloc4(0), rloc4(1)) // and the core is as it was
}

func describe(e *Engine) string {
	var lines []string
	for _, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/64", "[70000]10.9.0.0/17", "0.0.0.0/0"} {
		m, ok := e.Mapping(lisp.MustParsePrefix(prefix))
		lines = append(lines, fmt.Sprintf("%v %+v %v %v %v %v", ok, m.Mapping, m.Static, m.CreatedAt.UnixNano(), m.ExpiresAt.UnixNano(), m.Usage))
	}
	for d := range e.Database() {
		lines = append(lines, fmt.Sprintf("%+v", d))
	}
	flows := len(lines)
	for f := range e.Flows() {
		lines = append(lines, fmt.Sprintf("flow %v by %v since %v", f.Flow, f.Path, f.CreatedAt.UnixNano()))
	}
	slices.Sort(lines[flows:])
	states := len(lines)
	for r, s := range e.LocatorStates() {
		lines = append(lines, fmt.Sprint(r, s))
	}
	slices.Sort(lines[states:])
	return strings.Join(append(lines, fmt.Sprintf("%+v", e.Settings())), "\n")
}

// hear makes the programs remember Locator-Status-Bits and an event about a version.
func (r *router) hear(t *testing.T) (bits, version abi.LimitKey) {
	t.Helper()
	prefix, err := lpm.KeyOf(abi.RootMapCache, sitePrefixes(1)[0])
	must(t, err)
	bits = abi.LimitKey{
		Kind: uint32(abi.EventStatusBits), Iid: prefix.Instance, Family: prefix.Family,
		PrefixLength: prefix.Bits, Destination: prefix.Address,
	}
	version = bits
	version.Kind = uint32(abi.EventDestinationVersion)
	for _, key := range []abi.LimitKey{bits, version} {
		must(t, r.store.Map(abi.MapHeard).Put(key, abi.Heard{RaisedNs: 1, Value: 1}))
	}
	return bits, version
}

// expectHeard demands that the programs remember something, or not. What a control plane made of status bits ends with
// it, so that they have to be reported to the next one as if they had just changed (RFC 9300 s.10).
func (r *router) expectHeard(t *testing.T, key abi.LimitKey, want bool) {
	t.Helper()
	var value abi.Heard
	err := r.store.Map(abi.MapHeard).Lookup(key, &value)
	if known := err == nil; known != want || err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("event %d is remembered after a restart: %v, %v, want %v", key.Kind, known, err, want)
	}
}

// TestDetachLeavesNothing looks for pins, the TAP and programs.
func TestDetachLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]AttachMode{"tcx": AttachAuto, "clsact": AttachClsact} {
		t.Run(name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{Attach: mode})
			n.open(t, 1, Options{})
			n.mapBoth(t, rloc4)
			n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
			if mode == AttachClsact { // taken over in place by a later process
				must(t, a.Close())
				a.open(t, Options{Attach: mode})
				n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
			}
			must(t, a.Detach(context.Background()))
			if _, err := a.ns.Netlink().LinkByName(tap.DefaultName); err == nil {
				t.Error("the TAP is still there")
			}
			if _, err := os.Stat(filepath.Join(pins.DefaultDirectory, a.instance)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("pins: %v", err)
			}
			site, err := a.ns.Netlink().LinkByName("site0")
			must(t, err)
			filters, _ := a.ns.Netlink().FilterList(site, netlink.HANDLE_MIN_INGRESS)
			if len(filters) != 0 {
				t.Errorf("filters %v", filters)
			}
			n.expectPings(t, a.ns, rloc4(0), rloc4(1))
		})
	}
}

// TestOneProcessAtATime opens an instance, and a TAP, that is in use.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	for name, options := range map[string]Options{
		"instance": {Instance: a.instance, TAP: "loci1", Logger: testLogger()},
		"TAP":      {Instance: a.instance + "-2", Logger: testLogger()},
	} {
		err := a.ns.Do(func() error {
			_, err := Open(options)
			return err
		})
		if !errors.Is(err, pins.ErrBusy) {
			t.Errorf("same %s: %v, want ErrBusy", name, err)
		}
	}
	must(t, os.RemoveAll(filepath.Join(pins.DefaultDirectory, a.instance+"-2")))
}

// TestTwoInstancesSideBySide runs a second instance beside the first one.
func TestTwoInstancesSideBySide(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.mapBoth(t, rloc4)
	second := &router{ns: n.routers[0].ns, instance: n.routers[0].instance + "-2"}
	second.open(t, Options{TAP: "loci1"})
	second.apply(t, dataplane.SetSettings{Settings: n.routers[0].Settings()})
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	must(t, second.Detach(context.Background()))
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}

// TestLeftoversOfAGoneNamespace opens an instance that is in force in another
// namespace, and again when that is gone.
func TestLeftoversOfAGoneNamespace(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]AttachMode{"tcx": AttachAuto, "clsact": AttachClsact, "xdp": AttachAuto} {
		t.Run(name, func(t *testing.T) {
			old := newLinks(t).open(t, 0, Options{Attach: mode})
			old.apply(t, mappingOf(1, rloc4)...)
			if name == "xdp" {
				old.setHooks(t, dataplane.HookXDP, dataplane.HookXDP)
			}
			must(t, old.Close())
			other := &router{ns: newLinks(t).routers[0].ns, instance: old.instance}
			tryOpen := func() (err error) {
				return other.ns.Do(func() error {
					other.Engine, err = Open(Options{Instance: other.instance, TAP: "loci1", Attach: mode, Logger: testLogger()})
					return err
				})
			}
			if err := tryOpen(); !errors.Is(err, ErrElsewhere) {
				t.Fatalf("instance in force elsewhere: %v, want ErrElsewhere", err)
			}
			must(t, old.ns.Close())
			var err error
			eventually(t, "taken over", func() bool { err = tryOpen(); return !errors.Is(err, ErrElsewhere) })
			must(t, err)
			for m := range other.Mappings() {
				t.Errorf("mapping %v of another network", m.Mapping)
			}
			must(t, other.Detach(context.Background()))
		})
	}
}

// TestInterfacesComeAndGo replaces the site's interface by a new one of the same name.
func TestInterfacesComeAndGo(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.mapBoth(t, rloc4)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	a := n.routers[0]
	site, err := a.ns.Netlink().LinkByName("site0")
	must(t, err)
	must(t, a.ns.Netlink().LinkDel(site))
	connectSite(t, n.hosts[0], a.ns, 0)
	eventually(t, "the new interface is used", func() bool {
		_, known := a.recordOf(t, "site0")
		return known
	})
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	now, err := a.ns.Netlink().LinkByName("site0")
	must(t, err)
	must(t, a.ns.Netlink().LinkSetHardwareAddr(now, mac))
	eventually(t, "the new address is known", func() bool {
		record, _ := a.recordOf(t, "site0")
		return record.Mac == [6]byte(mac)
	})
}

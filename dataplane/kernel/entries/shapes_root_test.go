// SPDX-License-Identifier: Apache-2.0

// The forwarding table changes its shape while programs look up: none finds anything but its own mapping. The test
// needs root.

package entries

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/attach"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/netspace"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/dataplane/kernel/tap"
	"loci/internal/testnet"
	"loci/lisp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// itr is a router whose programs encapsulate by entries, without the rest of an engine.
type itr struct {
	*Entries
	ns      *testnet.Namespace
	site    netlink.Link
	ingress *ebpf.Program
}

func newITR(t *testing.T) *itr {
	t.Helper()
	net := testnet.ForTest(t)
	var ns [3]*testnet.Namespace
	for i, role := range []string{"host", "xtr", "core"} {
		var err error
		ns[i], err = net.Namespace(role)
		must(t, err)
	}
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	must(t, testnet.Connect(testnet.End{Namespace: ns[0], Name: "eth0"},
		testnet.End{Namespace: ns[1], Name: "site0", Addresses: prefixes("10.1.0.1/24", "2001:db8:1::1/64")}))
	must(t, testnet.Connect(testnet.End{Namespace: ns[1], Name: "core0", Addresses: prefixes("192.0.2.1/24")},
		testnet.End{Namespace: ns[2], Name: "eth0"}))
	must(t, ns[1].Forward())
	r := &itr{ns: ns[1]}
	var err error
	r.site, err = ns[1].Netlink().LinkByName("site0")
	must(t, err)
	core, err := ns[1].Netlink().LinkByName("core0")
	must(t, err)
	for _, rloc := range []netip.Addr{kerneltest.RLOC4(1), netip.MustParseAddr("192.0.2.99")} {
		must(t, ns[1].Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: core.Attrs().Index, State: netlink.NUD_PERMANENT,
			IP: rloc.AsSlice(), HardwareAddr: core.Attrs().HardwareAddr,
		}))
	}
	must(t, ns[1].Do(func() error { return r.open(t, strings.ReplaceAll(ns[1].Name(), ".", "_")) }))
	return r
}

// open makes maps and the TAP, loads the programs, and opens the entries.
func (r *itr) open(t *testing.T, instance string) error {
	space, err := netspace.Current()
	must(t, err)
	directory, err := pins.Open(pins.DefaultDirectory, instance)
	must(t, err)
	device, err := tap.Open(space, tap.DefaultName)
	must(t, err)
	maps, _, err := store.Open(directory, store.Limits{})
	must(t, err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r.Entries, err = Open(Parts{
		Log: log, Space: space, Store: maps, TableOctets: 1 << 28, Expired: func(dataplane.Event) {},
	})
	must(t, err)
	programs, err := maps.Programs(features.HaveDecapFlags())
	must(t, err)
	r.ingress = programs.SiteIngress
	attached, err := attach.Open(attach.Parts{
		Log: log, Space: space, Pins: directory, Instance: instance, Store: maps, TCPrograms: programs,
	})
	must(t, err)
	stop, running := make(chan struct{}), sync.WaitGroup{}
	running.Go(func() { r.Run(stop) })
	t.Cleanup(func() {
		close(stop)
		running.Wait()
		r.Close()
		must(t, errors.Join(attached.DetachAll(), device.Remove(),
			os.RemoveAll(directory.Maps()), os.RemoveAll(directory.Links())))
		must(t, errors.Join(attached.Close(), device.File.Close(), maps.Close(), space.Close(),
			directory.Remove()))
	})
	settings := dataplane.Settings{
		Interfaces: []dataplane.Interface{
			{Name: "site0", Side: dataplane.SideSite},
			{Name: "core0", Side: dataplane.SideCore},
		},
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(kerneltest.RLOC4(0))},
	}
	must(t, r.Obey(settings))
	must(t, maps.PutSettings(abi.Settings{AbiVersion: abi.Version, TapIfindex: device.Index, TapMac: device.Mac}))
	attached.Use(settings.Interfaces, device.Index, device.Mac, 0)
	_, err = attached.Sync()
	return err
}

func (r *itr) apply(t *testing.T, o dataplane.Operation) Release {
	t.Helper()
	released, err := r.Apply(o)
	must(t, err)
	return released
}

func mapping(prefix string, rloc netip.Addr) dataplane.PutMapping {
	m := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: kerneltest.Locators(rloc), TTLMinutes: 10}
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   m,
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}}
}

// frame is a datagram from the site, with a source port of its own that no sum covers.
func (r *itr) frame(from, to netip.Addr, port uint16) []byte {
	const octets, udp, hops = 20, unix.IPPROTO_UDP, 64
	frame := append(slices.Clone(r.site.Attrs().HardwareAddr), 2, 0, 0, 0, 0, 1)
	if from.Is4() {
		header := []byte{0x45, 0, 0, 20 + octets, 0, 0, 0x40, 0, hops, udp, 0, 0}
		header = append(append(header, from.AsSlice()...), to.AsSlice()...)
		binary.BigEndian.PutUint16(header[10:], sumOf(header))
		frame = append(append(frame, 0x08, 0), header...)
	} else {
		header := append([]byte{0x60, 0, 0, 0, 0, octets, udp, hops}, from.AsSlice()...)
		frame = append(append(append(frame, 0x86, 0xdd), header...), to.AsSlice()...)
	}
	frame = binary.BigEndian.AppendUint16(frame, port)
	return append(frame, append([]byte{0, 9, 0, octets, 0, 0}, make([]byte, octets-8)...)...)
}

func sumOf(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xFFFF {
		sum = sum&0xFFFF + sum>>16
	}
	return ^uint16(sum)
}

// send passes a frame to the program of the site's interface, and returns the RLOC that it is sent to.
func (r *itr) send(t *testing.T, frame []byte) netip.Addr {
	t.Helper()
	const redirected, ingressIfindex, ifindex, contextOctets, outerDestination = 7, 36, 40, 192, 14 + 16
	context := make([]byte, contextOctets) // struct __sk_buff
	for _, at := range []int{ingressIfindex, ifindex} {
		binary.NativeEndian.PutUint32(context[at:], uint32(r.site.Attrs().Index))
	}
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
	var verdict uint32
	must(t, r.ns.Do(func() (err error) {
		verdict, err = r.ingress.Run(options)
		return err
	}))
	if verdict != redirected || len(options.DataOut) == len(frame) {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte(options.DataOut[outerDestination:]))
}

// decoysOf are prefixes around a host that do not cover it, or cover more than its own mapping does.
var decoysOf = map[uint8][]string{
	4: {
		"10.0.0.0/8", "10.2.0.0/16", "10.2.0.128/25", "10.2.0.8/31",
		"10.2.0.11/32", "10.2.1.0/24", "10.2.0.64/26", "8.0.0.0/5",
	},
	6: {
		"2001::/16", "2001:db8::/32", "2001:db8:2:0:8000::/65", "2001:db8:2::8/127",
		"2001:db8:2::11/128", "2001:db8:2:1::/64", "2001:db8:3::/48", "2001:db8:2::/47",
	},
}

// wideFromAt lets a root get DIR-24-8's first level and lose it again with the decoys of the first rounds, which takes
// a while, and then stay as it is for some hundred rounds each.
func wideFromAt(round int) int {
	switch {
	case round < 3:
		return 8
	case round/200%2 == 0:
		return 1 << 18
	}
	return 1
}

// reshape edits entries around a host, with a table that has one shape and the other, until it is stopped.
func (r *itr) reshape(t *testing.T, family uint8, stop <-chan struct{}, seen *[2]atomic.Bool) {
	look := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		wide := r.guarded.tables.Table.HasLevels(lpm.RootKey{Kind: abi.RootMapCache, Family: family})
		seen[map[bool]int{false: 0, true: 1}[wide]].Store(true)
	}
	for round := 0; ; round++ {
		r.mu.Lock()
		thresholds := &r.guarded.tables.Table.Thresholds
		thresholds.SecondLevel6 = 1
		thresholds.FirstLevel4 = wideFromAt(round)
		thresholds.FirstLevel6 = thresholds.FirstLevel4
		r.mu.Unlock()
		for _, prefix := range decoysOf[family] {
			if _, err := r.Apply(mapping(prefix, netip.MustParseAddr("192.0.2.99"))); err != nil {
				t.Error(err)
			}
		}
		look()
		for _, prefix := range decoysOf[family] {
			_, err := r.Apply(dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix(prefix)})
			if err != nil {
				t.Error(err)
			}
		}
		look()
		select {
		case <-stop:
			return
		default:
		}
	}
}

func TestTableChangesShapeUnderLookups(t *testing.T) {
	t.Parallel()
	r := newITR(t)
	for family, c := range map[uint8]struct{ site, prefix, from, to string }{
		4: {"10.1.0.0/24", "10.2.0.0/24", "10.1.0.10", "10.2.0.10"},
		6: {"2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:1::10", "2001:db8:2::10"},
	} {
		r.apply(t, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
			Prefix: lisp.MustParsePrefix(c.site), Locators: kerneltest.Locators(kerneltest.RLOC4(0)),
		}})
		released := r.apply(t, mapping(c.prefix, kerneltest.RLOC4(1)))
		r.Unhold([]Release{released}, func() bool { return true })
		stop, seen, running := make(chan struct{}), [2]atomic.Bool{}, sync.WaitGroup{}
		running.Go(func() { r.reshape(t, family, stop, &seen) })
		from, to := netip.MustParseAddr(c.from), netip.MustParseAddr(c.to)
		packets, deadline := 0, time.Now().Add(kerneltest.Patience)
		for ; packets < 3000 || !seen[0].Load() || !seen[1].Load(); packets++ {
			if got := r.send(t, r.frame(from, to, uint16(packets))); got != kerneltest.RLOC4(1) {
				t.Errorf("IPv%d packet %d is sent to %v", family, packets, got)
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("IPv%d: narrow: %v, wide: %v", family, seen[0].Load(), seen[1].Load())
				break
			}
		}
		close(stop)
		running.Wait()
		t.Logf("IPv%d: %d packets", family, packets)
	}
}

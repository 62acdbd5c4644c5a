// SPDX-License-Identifier: Apache-2.0

// Action records and entries of the flow cache end with what they rest on: whatever an operation changes holds for the next packet,
// not when the record is 50 ms old. The test needs root.

package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance/links"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/tables"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	hookXDP = "XDP"
	hookTC  = "tc"

	xdpRedirect = 4
	tcRedirect  = 7
)

// newXDPRouter is router A with its site at XDP and a core that takes frames; its neighbours never change.
func newXDPRouter(t *testing.T) (*network, *router) {
	t.Helper()
	n := newLinks(t)
	must(t, n.routers[1].ns.SetOffload("core0", testnet.GRO, true))
	r := n.open(t, 0, Options{})
	s := r.Settings()
	s.Interfaces[0].Hook = dataplane.HookXDP
	r.apply(t, dataplane.SetSettings{Settings: s})
	n.waitForFlag(t, 0, "core0", takesFrames)
	core, err := r.ns.Netlink().LinkByName("core0")
	must(t, err)
	for _, rloc := range []netip.Addr{rloc4(1), rloc4(2)} {
		must(t, r.ns.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: core.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(rloc.AsSlice()), HardwareAddr: links.FarMAC,
		}))
	}
	return n, r
}

// sender runs the program of a hook on a packet from the site; `to` is where it would go.
type sender func(t *testing.T, packet []byte) (verdict uint32, to netip.AddrPort)

// frameTo puts a packet behind a link layer header.
func frameTo(at netlink.Link, packet []byte) []byte {
	kind := map[byte]uint16{4: unix.ETH_P_IP, 6: unix.ETH_P_IPV6}[packet[0]>>4]
	frame := append(slices.Clone(at.Attrs().HardwareAddr), links.FarMAC...)
	return append(binary.BigEndian.AppendUint16(frame, kind), packet...)
}

// run passes a frame to a program of a hook, as it comes in at an interface.
func (r *router) run(t *testing.T, hook string, program *ebpf.Program, at netlink.Link, frame []byte) (verdict uint32, got []byte) {
	t.Helper()
	index := uint32(at.Attrs().Index)
	context := make([]byte, 192) // struct __sk_buff
	binary.NativeEndian.PutUint32(context[36:], index)
	binary.NativeEndian.PutUint32(context[40:], index)
	if hook == hookXDP {
		context = make([]byte, 24) // struct xdp_md
		binary.NativeEndian.PutUint32(context[4:], uint32(len(frame)))
		binary.NativeEndian.PutUint32(context[12:], index)
	}
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
	must(t, r.ns.Do(func() (err error) {
		verdict, err = program.Run(options)
		return err
	}))
	return verdict, options.DataOut
}

// sendAt is the sender of a hook.
func (r *router) sendAt(hook string) sender {
	program := map[string]string{hookXDP: abi.ProgramXDP, hookTC: abi.ProgramSiteIngress}[hook]
	return func(t *testing.T, packet []byte) (verdict uint32, to netip.AddrPort) {
		t.Helper()
		site, err := r.ns.Netlink().LinkByName("site0")
		must(t, err)
		frame := frameTo(site, packet)
		verdict, got := r.run(t, hook, r.program(t, program), site, frame)
		if len(got) > len(frame) { // what passes or waits is as long as it was
			rloc, _ := netip.AddrFromSlice(got[14+16:][:4])
			to = netip.AddrPortFrom(rloc, binary.BigEndian.Uint16(got[14+20+2:]))
		}
		return verdict, to
	}
}

// carries has an RLOC's path carry packets of so many octets; 0: of any.
func (r *router) carries(rloc lisp.RLOC, octets int) {
	if octets == 0 {
		r.entries.EndPathMTUs(time.Now().Add(time.Hour))
	} else {
		r.entries.LowerPathMTU(rloc, octets, time.Now())
	}
}

// expectDevice wants frames to leave by an interface without a search for it.
func (r *router) expectDevice(t *testing.T, name string) {
	t.Helper()
	link, err := r.ns.Netlink().LinkByName(name)
	must(t, err)
	m, index := r.store.Map(abi.MapDevices), uint32(link.Attrs().Index)
	var holder uint32
	if err := m.Lookup(index%m.MaxEntries(), &holder); err != nil || holder != index {
		t.Errorf("the place of %s, interface %d, has %d (%v)", name, index, holder, err)
	}
}

// caches are what the programs keep, in its memory.
type caches struct {
	flows   []abi.Flow
	records []abi.ActionRecord
}

func (r *router) mapCaches(t *testing.T) caches {
	t.Helper()
	return caches{memoryFor[abi.Flow](t, r, abi.MapFlows), memoryFor[abi.ActionRecord](t, r, abi.MapActions)}
}

func (c caches) clear() {
	clear(c.flows)
	clear(c.records)
}

// memoryFor maps the memory of an array that is the programs' own.
func memoryFor[T any](t *testing.T, r *router, name string) []T {
	t.Helper()
	m := r.store.Map(name)
	memory, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries())*int(m.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(memory)) })
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), m.MaxEntries())
}

// keepForEver lets all of them live as long as nothing ends them, and on every processor: neither how slow this machine is nor where
// the next packet is looked at makes a difference. Headers of records begin with these octets, if any. It returns how many
// entries the flow cache has.
func (c caches) keepForEver(header []byte) (flows int) {
	for index := range c.records {
		a := &c.records[index]
		if a.What == 0 || a.ExpiresNs == forEver {
			continue
		}
		a.ExpiresNs = forEver
		copy(a.Header[:], header)
		for place := index % abi.ActionsEach; place < len(c.records); place += abi.ActionsEach {
			c.records[place] = *a
		}
	}
	for index := range c.flows {
		f := &c.flows[index]
		if f.What == 0 || f.ExpiresNs == forEver {
			continue
		}
		flows++
		f.ExpiresNs = forEver
		for place := index % abi.FlowsEach; place < len(c.flows); place += abi.FlowsEach {
			c.flows[place] = *f
		}
	}
	return flows
}

const forEver = 1 << 62 // nanoseconds

// expectTwice wants the same answer twice: the second one is that of the flow cache.
func expectTwice(t *testing.T, send sender, when string, packet []byte, want netip.AddrPort) {
	t.Helper()
	for _, which := range []string{"first", "second"} {
		if verdict, to := send(t, packet); to != want {
			t.Errorf("%s, the %s packet: to %v (verdict %d), want %v", when, which, to, verdict, want)
		}
	}
}

func positive(prefix string, rlocs ...netip.Addr) dataplane.PutMapping {
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: locators(rlocs...), TTLMinutes: 10},
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}}
}

// reserved is a mapping with a second locator of that priority.
func reserved(prefix string, priority uint8) dataplane.PutMapping {
	m := positive(prefix, rloc4(1), rloc4(2))
	m.Entry.Mapping.Locators[1].Priority = priority
	return m
}

// drop is a negative mapping.
func drop(prefix string) dataplane.PutMapping {
	m := positive(prefix)
	m.Entry.Mapping.Action, m.Entry.Mapping.Locators = lisp.ActionDrop, nil
	return m
}

func gone(prefix string) dataplane.DeleteMapping {
	return dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix(prefix)}
}

func stateOf(rloc netip.Addr, s dataplane.LocatorState) dataplane.PutLocatorState {
	return dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(rloc), State: s}
}

func TestFlowCacheFollowsTables(t *testing.T) {
	t.Parallel()
	_, r := newXDPRouter(t)
	r.expectDevice(t, "core0")
	kept := r.mapCaches(t)
	for _, c := range []struct{ pair, covering, prefix, own, around string }{
		{pairs[0].name, "0.0.0.0/0", "10.2.0.0/24", "10.2.0.10/32", "10.2.0.0/18"},
		{pairs[1].name, "::/0", "2001:db8:2::/64", "2001:db8:2::a/128", "2001:db8::/44"},
	} {
		p := pairs[0]
		if c.pair != p.name {
			p = pairs[1]
		}
		for _, hook := range []string{hookXDP, hookTC} {
			t.Run(c.pair+"/"+hook, func(t *testing.T) {
				flowCacheFollows(t, r, r.sendAt(hook), udpPacket(t, p, 0, 1, 64), tableSteps{kept, c.covering, c.prefix, c.own, c.around})
			})
		}
	}
}

// tableSteps are EID-Prefixes of the map-cache that cover a packet's destination, and what the programs keep.
type tableSteps struct {
	kept                          caches
	covering, prefix, own, around string
}

func flowCacheFollows(t *testing.T, r *router, send sender, packet []byte, eids tableSteps) {
	covering, prefix, own, around := eids.covering, eids.prefix, eids.own, eids.around
	database := siteOperations(0)[1:]
	var noDatabase []dataplane.Operation
	for _, own := range sitePrefixes(0) {
		noDatabase = append(noDatabase, dataplane.DeleteDatabase{Prefix: own})
	}
	one, two := netip.AddrPortFrom(rloc4(1), forward.DataPort), netip.AddrPortFrom(rloc4(2), forward.DataPort)
	gpe := netip.AddrPortFrom(rloc4(1), forward.VXLANGPEPort)
	nowhere := netip.AddrPort{} // dropped, or left to tc
	r.apply(t, positive(prefix, rloc4(1)))
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, to := send(t, packet); to == one {
			break // no longer held
		}
		if time.Now().After(deadline) {
			t.Fatal("never sent")
		}
	}
	settings := r.Settings()
	other := settings.Clone()
	other.Interfaces[0].Forwarding = dataplane.ForwardingStack
	vxlan := settings.Clone()
	vxlan.Encapsulations = []dataplane.EncapsulationRule{{Encapsulation: dataplane.EncapsulationVXLANGPE}}
	apply := func(o ...dataplane.Operation) func() { return func() { r.apply(t, o...) } }
	flow := flowOf(t, packet)
	bind := func(to netip.Addr) dataplane.Operation {
		return dataplane.PutFlow{Flow: flow, Path: lisp.PathTo(lisp.RLOCFromAddr(to))}
	}
	mtu := func(octets int) func() {
		return func() { r.carries(lisp.RLOCFromAddr(rloc4(1)), octets) }
	}
	for _, step := range []struct {
		when   string
		change func()
		to     netip.AddrPort
	}{
		{"a mapping", apply(drop(covering)), one},
		{"its host's own", apply(drop(own)), nowhere},
		{"that is gone", apply(gone(own)), one},
		{"another locator", apply(positive(prefix, rloc4(2))), two},
		{"the first one again", apply(positive(prefix, rloc4(1))), one},
		{"which is down", apply(stateOf(rloc4(1), dataplane.LocatorDown)), nowhere},
		{"and up", apply(stateOf(rloc4(1), dataplane.LocatorUp)), one},
		{"another one in reserve", apply(reserved(prefix, 9)), one},
		{"bound to that", apply(bind(rloc4(2))), two},
		{"which is down", apply(stateOf(rloc4(2), dataplane.LocatorDown)), one},
		{"and up", apply(stateOf(rloc4(2), dataplane.LocatorUp)), two},
		{"never to be used", apply(reserved(prefix, lisp.PriorityUnused)), one},
		{"in reserve again", apply(reserved(prefix, 9)), two},
		{"bound to none of them", apply(bind(rloc4(3))), one},
		{"bound to it once more", apply(bind(rloc4(2))), two},
		{"bound no longer", apply(dataplane.DeleteFlow{Flow: flow}), one},
		{"bound anew", apply(bind(rloc4(2))), two},
		{"no flow is bound", apply(dataplane.Flush{Flows: true}), one},
		{"its path narrow", mtu(100), nowhere},
		{"and wide", mtu(0), one},
		{"by the stack", apply(dataplane.SetSettings{Settings: other}), nowhere},
		{"fast again", apply(dataplane.SetSettings{Settings: settings}), one},
		{"by VXLAN-GPE", apply(dataplane.SetSettings{Settings: vxlan}), gpe},
		{"by LISP again", apply(dataplane.SetSettings{Settings: settings}), one},
		{"no source of ours", apply(noDatabase...), nowhere},
		{"ours again", apply(database...), one},
		{"gone, a shorter one remains", apply(gone(prefix)), nowhere},
		{"one in between", apply(drop(around)), nowhere},
		{"the shorter one gone", apply(gone(covering)), nowhere},
		{"none is left", apply(gone(around)), nowhere},
	} {
		_, before := send(t, packet)
		if kept := eids.kept.keepForEver(nil); before.Port() == forward.DataPort && kept == 0 {
			t.Fatalf("before %s: nothing is kept", step.when)
		}
		step.change()
		expectTwice(t, send, step.when, packet, step.to)
	}
}

// TestGenerationsOfPrefixes says which entries of the flow cache an edit ends.
func TestGenerationsOfPrefixes(t *testing.T) {
	for _, c := range []struct {
		prefix string
		kind   uint8
		ends   []string // destinations whose entries end
		all    bool
	}{
		{"10.2.3.0/24", abi.RootMapCache, []string{"10.2.3.0/32", "10.2.3.255/32"}, false},
		{"10.2.3.4/32", abi.RootMapCache, []string{"10.2.3.4/32"}, false},
		{"10.2.0.0/16", abi.RootMapCache, []string{"10.2.0.1/32", "10.2.77.1/32", "10.2.255.255/32"}, false},
		{"10.2.0.0/15", abi.RootMapCache, nil, true},
		{"2001:db8:2::/48", abi.RootMapCache, []string{"2001:db8:2::1/128", "2001:db8:2:ffff::/128"}, false},
		{"2001:db8:200::/40", abi.RootMapCache, []string{"2001:db8:200::/128", "2001:db8:2ff::/128"}, false},
		{"2001:db8:200::/39", abi.RootMapCache, nil, true},
		{"10.2.3.4/32", abi.RootDatabase, nil, true},
	} {
		g := tables.Generations{Numbers: new(abi.Generations)}
		key, err := lpm.KeyOf(c.kind, lisp.MustParsePrefix(c.prefix))
		must(t, err)
		g.Of(&key)
		if all := g.Numbers.Epoch == 1; all != c.all {
			t.Errorf("%s: ends all: %t", c.prefix, all)
		}
		for _, text := range c.ends {
			one := tables.Generations{Numbers: new(abi.Generations)}
			host, err := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix(text))
			must(t, err)
			one.Of(&host)
			for place, n := range one.Numbers.Destinations {
				if n > 0 && g.Numbers.Destinations[place] == 0 {
					t.Errorf("%s does not end entries of %s", c.prefix, text)
				}
			}
		}
	}
}

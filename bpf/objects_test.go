// SPDX-License-Identifier: Apache-2.0

// Loading the committed objects for tests, without the engine that uses them otherwise: maps are filled through BTF by the
// names of abi.h, so that no structure is copied by hand, and the forwarding table by the plainest possible compiler.

package bpf_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"loci/internal/testnet"
)

const (
	objectFile    = "../dataplane/kernel/abi/lisptc_bpfel.o"
	xdpObjectFile = "../dataplane/kernel/abi/lispxdp_bpfel.o"
)

// planeLimit is how many mappings and locator-sets a plane has.
const planeLimit = 64

// fields names members of a structure of abi.h; those not named are zero.
type fields map[string]any

// plane is one loaded set of programs and maps.
type plane struct {
	t        testing.TB
	spec     *ebpf.CollectionSpec
	coll     *ebpf.Collection
	leafs    map[rootKey][]leaf
	roots    map[uint32]uint32 // where an Instance-ID's stand
	next     uint32            // mapping
	sets     uint32
	locators uint32
	epoch    uint32 // of the caches
	policies uint32 // kinds of lists that are policies of roles
	bindings uint32 // flows that are bound

	constants  map[string]uint32
	structures map[string]*btf.Struct
	memory     map[string][]byte // of maps, see places
}

type rootKey struct {
	kind   uint32
	family uint8
	iid    uint32
}

type leaf struct {
	prefix  netip.Prefix
	mapping uint32
}

// objects are the files that were read, which takes some 0.1 s under the race detector.
var objects = map[string]*ebpf.CollectionSpec{}

// readObject returns a copy of what is in a file.
func readObject(t testing.TB, file string) *ebpf.CollectionSpec {
	t.Helper()
	if objects[file] == nil {
		spec, err := ebpf.LoadCollectionSpec(file)
		if err != nil {
			t.Fatalf("load %s: %v", file, err)
		}
		objects[file] = spec
	}
	return objects[file].Copy()
}

// loadPlane makes the maps; each program comes when it is asked for, because the kernel takes up to a second to verify one.
// decapFlags says whether the programs may use the newer flags of bpf_skb_adjust_room.
func loadPlane(t testing.TB, decapFlags bool) *plane {
	t.Helper()
	spec := readObject(t, objectFile)
	spec.Maps["mappings"].MaxEntries, spec.Maps["locator_sets"].MaxEntries = planeLimit, planeLimit
	spec.Maps["mapping_counters"].MaxEntries = planeLimit * uint32(ebpf.MustPossibleCPU())
	spec.Maps["actions"].MaxEntries *= uint32(ebpf.MustPossibleCPU())
	spec.Maps["flows"].MaxEntries *= uint32(ebpf.MustPossibleCPU())
	spec.Maps["bound_answers"].MaxEntries *= uint32(ebpf.MustPossibleCPU())
	if err := spec.Variables["lisp_mapping_limit"].Set(uint32(planeLimit)); err != nil {
		t.Fatal(err)
	}
	if decapFlags {
		if err := spec.Variables["lisp_decap_l3_flags"].Set(uint32(1)); err != nil {
			t.Fatal(err)
		}
	}
	p := &plane{t: t, spec: spec, leafs: map[rootKey][]leaf{}, roots: map[uint32]uint32{}, structures: map[string]*btf.Struct{}, memory: map[string][]byte{}}
	maps := spec.Copy()
	clear(maps.Programs)
	coll, err := ebpf.NewCollection(maps)
	if err != nil {
		t.Fatalf("load into the kernel: %+v", err)
	}
	t.Cleanup(coll.Close)
	p.coll = coll
	return p
}

// program loads a program, unless it is loaded. Those of the XDP hook, which call each other, come together.
func (p *plane) program(name string) *ebpf.Program {
	p.t.Helper()
	switch {
	case p.coll.Programs[name] != nil:
	case strings.HasPrefix(name, "lisp_xdp"):
		p.loadXDP()
	default:
		p.loadTC(name)
	}
	return p.coll.Programs[name]
}

// loadTC adds a program of the tc hooks.
func (p *plane) loadTC(name string) {
	p.t.Helper()
	spec := p.spec.Copy()
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: p.coll.Maps})
	if err != nil {
		p.t.Fatalf("load %s into the kernel: %+v", name, err)
	}
	p.coll.Programs[name] = coll.DetachProgram(name)
	coll.Close()
}

// loadXDP adds the programs of the XDP hook, which share the maps of the others.
func (p *plane) loadXDP() {
	t, coll := p.t, p.coll
	t.Helper()
	spec := readObject(t, xdpObjectFile)
	if err := spec.Variables["lisp_mapping_limit"].Set(uint32(planeLimit)); err != nil {
		t.Fatal(err)
	}
	shared := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if coll.Maps[name] != nil && name[0] != '.' {
			shared[name], m.MaxEntries = coll.Maps[name], coll.Maps[name].MaxEntries()
		}
	}
	var programs struct {
		XDP  *ebpf.Program `ebpf:"lisp_xdp"`
		Core *ebpf.Program `ebpf:"lisp_xdp_core"`
		Site *ebpf.Program `ebpf:"lisp_xdp_site"`
		Sets *ebpf.Program `ebpf:"lisp_xdp_sets"`
	}
	if err := spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		t.Fatalf("load the XDP program into the kernel: %+v", err)
	}
	for place, program := range []*ebpf.Program{programs.Core, programs.Site, programs.Sets} {
		if err := coll.Maps["xdp_programs"].Put(uint32(place), program); err != nil {
			t.Fatal(err)
		}
	}
	coll.Programs["lisp_xdp"], coll.Programs["lisp_xdp_core"], coll.Programs["lisp_xdp_site"] = programs.XDP, programs.Core, programs.Site
	coll.Programs["lisp_xdp_sets"] = programs.Sets
}

// kernelHasDecapFlags asks the kernel, by shrinking an IPv6 packet into an IPv4 packet, whether bpf_skb_adjust_room knows
// BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (since Linux 6.3).
func kernelHasDecapFlags(t testing.TB) bool {
	t.Helper()
	testnet.RequireRoot(t)
	const byMAC, decapIPv4 = 1, 1 << 7
	probe, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, -20), asm.Mov.Imm(asm.R3, byMAC), asm.Mov.Imm(asm.R4, decapIPv4),
			asm.FnSkbAdjustRoom.Call(), asm.Return(),
		},
	})
	if err != nil {
		t.Fatalf("load the probe: %v", err)
	}
	defer probe.Close()
	packet := make([]byte, 14+40+40)
	packet[12], packet[13], packet[14] = 0x86, 0xDD, 0x60
	answer, err := probe.Run(&ebpf.RunOptions{Data: packet, DataOut: make([]byte, 256)})
	if err != nil {
		t.Fatalf("run the probe: %v", err)
	}
	return answer == 0
}

// structure describes a structure of abi.h.
func (p *plane) structure(name string) *btf.Struct {
	p.t.Helper()
	s, known := p.structures[name]
	if known {
		return s
	}
	if err := p.spec.Types.TypeByName(name, &s); err != nil {
		p.t.Fatalf("abi.h: %v", err)
	}
	p.structures[name] = s
	return s
}

// encode lays out a structure of abi.h.
func (p *plane) encode(name string, values fields) []byte {
	p.t.Helper()
	s := p.structure(name)
	out := make([]byte, s.Size)
	seen := 0
	for _, m := range s.Members {
		value, ok := values[m.Name]
		if !ok {
			continue
		}
		seen++
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			p.t.Fatal(err)
		}
		putValue(out[m.Offset.Bytes():][:size], value)
	}
	if seen != len(values) {
		p.t.Fatalf("%s lacks one of %v", name, values)
	}
	return out
}

// setMember writes a number into a structure of abi.h.
func (p *plane) setMember(name, member string, octets []byte, value uint32) {
	p.t.Helper()
	s := p.structure(name)
	for _, m := range s.Members {
		if m.Name == member {
			size, err := btf.Sizeof(m.Type)
			if err != nil {
				p.t.Fatal(err)
			}
			putValue(octets[m.Offset.Bytes():][:size], value)
			return
		}
	}
	p.t.Fatalf("%s has no %s", name, member)
}

// member reads a number out of a structure of abi.h.
func (p *plane) member(name, member string, octets []byte) uint64 {
	p.t.Helper()
	s := p.structure(name)
	for _, m := range s.Members {
		if m.Name != member {
			continue
		}
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			p.t.Fatal(err)
		}
		var number [8]byte
		copy(number[:], octets[m.Offset.Bytes():][:size])
		return binary.LittleEndian.Uint64(number[:])
	}
	p.t.Fatalf("%s has no %s", name, member)
	return 0
}

func putValue(to []byte, value any) {
	if b, ok := value.([]byte); ok {
		copy(to, b)
		return
	}
	var number [8]byte
	v := reflect.ValueOf(value)
	if v.CanInt() {
		binary.LittleEndian.PutUint64(number[:], uint64(v.Int()))
	} else {
		binary.LittleEndian.PutUint64(number[:], v.Uint())
	}
	copy(to, number[:])
}

// constant is the value of an enumerator of abi.h.
func (p *plane) constant(name string) uint32 {
	p.t.Helper()
	if p.constants == nil {
		p.constants = map[string]uint32{}
		for typ := range p.spec.Types.All() {
			if enum, ok := typ.(*btf.Enum); ok {
				for _, v := range enum.Values {
					p.constants[v.Name] = uint32(v.Value)
				}
			}
		}
	}
	value, ok := p.constants[name]
	if !ok {
		p.t.Fatalf("abi.h has no %s", name)
	}
	return value
}

func (p *plane) update(name string, key, value any) {
	p.t.Helper()
	if err := p.coll.Maps[name].Update(key, value, ebpf.UpdateAny); err != nil {
		p.t.Fatalf("update %s: %v", name, err)
	}
	p.forgetCaches()
}

// forgetCaches makes every packet go through all stages.
func (p *plane) forgetCaches() {
	p.t.Helper()
	m := p.coll.Maps["generations"]
	p.epoch++
	value := make([]byte, m.ValueSize())
	binary.NativeEndian.PutUint32(value, p.epoch)
	binary.NativeEndian.PutUint32(value[bindingsAt:], p.bindings)
	if err := m.Update(uint32(0), value, ebpf.UpdateAny); err != nil {
		p.t.Fatal(err)
	}
}

func address16(a netip.Addr) []byte {
	out := make([]byte, 16)
	copy(out, a.AsSlice())
	return out
}

func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return 4
	}
	return 6
}

// settings writes the settings.
func (p *plane) settings(values fields) {
	p.t.Helper()
	if lists, _ := values["lists"].(uint32); lists|p.policies != 0 {
		values["lists"] = lists | p.policies
	}
	p.update("settings", uint32(0), p.encode("lisp_settings", values))
}

// policy gives the router a role for these prefixes, when the settings are written next.
func (p *plane) policy(role string, iid uint32, prefixes ...string) {
	p.t.Helper()
	kind := p.constant(role)
	p.policies |= 1 << kind
	put := func(text, entry string) {
		prefix := netip.MustParsePrefix(text)
		p.update("lists", p.encode("lisp_list_key", fields{
			"bits": 64 + prefix.Bits(), "generation": goldenGeneration, "kind": kind, "family": familyOf(prefix.Addr()), "iid": iid, "address": address16(prefix.Addr()),
		}), p.constant(entry))
	}
	put("0.0.0.0/0", "LISP_LIST_DENIES")
	put("::/0", "LISP_LIST_DENIES")
	for _, prefix := range prefixes {
		put(prefix, "LISP_LIST_PERMITS")
	}
}

// localRLOC declares an own RLOC, by its UDP port; 0 is LISP's.
func (p *plane) localRLOC(a netip.Addr, port uint16) {
	p.t.Helper()
	inPacket := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
	p.update("local_rlocs", p.encode("lisp_rloc_key", fields{"address": address16(a), "family": familyOf(a), "port": inPacket}), uint32(0))
}

// database declares an own EID-prefix and returns the index of its mapping.
func (p *plane) database(iid uint32, prefix string) uint32 {
	flags := p.constant("LISP_MAPPING_VALID") | p.constant("LISP_MAPPING_DATABASE")
	return p.add("LISP_ROOT_DATABASE", iid, prefix, fields{"flags": flags, "locator_set": uint32(0xFFFFFFFF)})
}

// mapCache adds a positive mapping with one locator, and returns its index.
func (p *plane) mapCache(iid uint32, prefix, rloc, source string) uint32 {
	return p.mapCacheTo(iid, prefix, p.locatorSet(fields{}, rloc, source))
}

func (p *plane) mapCacheTo(iid uint32, prefix string, set uint32) uint32 {
	return p.add("LISP_ROOT_MAP_CACHE", iid, prefix, fields{"flags": p.constant("LISP_MAPPING_VALID"), "locator_set": set})
}

// negative adds a mapping without locators.
func (p *plane) negative(iid uint32, prefix, action string) uint32 {
	return p.add("LISP_ROOT_MAP_CACHE", iid, prefix, fields{
		"flags": p.constant("LISP_MAPPING_VALID"), "locator_set": uint32(0xFFFFFFFF), "action": p.constant(action),
	})
}

// locatorSet writes a set of one locator that takes all buckets.
func (p *plane) locatorSet(values fields, rloc, source string) uint32 {
	p.t.Helper()
	to := netip.MustParseAddr(rloc)
	values["rloc"], values["source"], values["family"] = address16(to), address16(netip.MustParseAddr(source)), familyOf(to)
	p.update("locator_sets", p.sets, p.encode("lisp_locator_set", fields{"count": 1, "first": p.locators, "buckets": make([]byte, 128)}))
	p.addLocator(values)
	p.sets++
	return p.sets - 1
}

// addLocator writes the next locator.
func (p *plane) addLocator(values fields) {
	p.t.Helper()
	p.update("locators", p.locators, p.encode("lisp_locator", values))
	p.locators++
}

func (p *plane) add(kind string, iid uint32, prefix string, mapping fields) uint32 {
	p.t.Helper()
	parsed := netip.MustParsePrefix(prefix)
	mapping["iid"], mapping["family"] = iid, familyOf(parsed.Addr())
	mapping["prefix"], mapping["prefix_length"] = address16(parsed.Masked().Addr()), parsed.Bits()
	p.update("mappings", p.next, p.encode("lisp_mapping", mapping))
	key := rootKey{p.constant(kind), familyOf(parsed.Addr()), iid}
	p.leafs[key] = append(p.leafs[key], leaf{parsed, p.next})
	p.compile(key)
	p.next++
	return p.next - 1
}

// setMappingFlags changes the flags of a mapping that is linked.
func (p *plane) setMappingFlags(index uint32, names ...string) {
	p.t.Helper()
	var mapping []byte
	if err := p.coll.Maps["mappings"].Lookup(index, &mapping); err != nil {
		p.t.Fatal(err)
	}
	var flags uint32
	for _, name := range names {
		flags |= p.constant(name)
	}
	binary.LittleEndian.PutUint32(mapping, flags)
	p.update("mappings", index, mapping)
}

const (
	slotNode = 0x40000000
	slotLeaf = 0x80000000
)

// A node of this table is for one octet: 64 cells of four slots.
type node [256]uint32

const (
	cellsOfNode = 64
	octetStride = 8 << 25
	indexOfSlot = 1<<25 - 1
	slotsOfCell = 4
)

func slotOf(node int) uint32 { return slotNode | octetStride | uint32(node*cellsOfNode) }

// compile writes the table of one root from scratch, at an index of its own.
func (p *plane) compile(key rootKey) {
	p.t.Helper()
	leafs := p.leafs[key]
	sort.SliceStable(leafs, func(i, j int) bool { return leafs[i].prefix.Bits() < leafs[j].prefix.Bits() })
	nodes := []node{{}}
	for _, l := range leafs {
		nodes = insert(nodes, l)
	}
	// The BTF of the template matters: before Linux 6.4 or so a table without it is no equal of the template.
	template := p.spec.Maps["fib"].InnerMap.Copy()
	template.MaxEntries = uint32(len(nodes) * cellsOfNode)
	table, err := ebpf.NewMap(template)
	if err != nil {
		p.t.Fatalf("make a table: %v", err)
	}
	defer table.Close()
	for i := range nodes {
		for cell := range cellsOfNode {
			if err := table.Put(uint32(i*cellsOfNode+cell), nodes[i][slotsOfCell*cell:slotsOfCell*cell+slotsOfCell]); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	index := p.next + 1
	p.update("fib", index, table)
	p.setRoot(key, rootInUse|uint64(index)<<32|uint64(slotOf(0)))
}

const rootInUse = 1 << 63

func (p *plane) setRoot(key rootKey, root uint64) {
	p.t.Helper()
	var roots []byte
	if err := p.coll.Maps["roots"].Lookup(p.rootsOf(key.iid), &roots); err != nil {
		p.t.Fatal(err)
	}
	at := key.kind
	if key.family == 6 {
		at++
	}
	binary.LittleEndian.PutUint64(roots[8*at:], root)
	p.update("roots", p.rootsOf(key.iid), roots)
}

// rootsOf is the index of an Instance-ID's roots, which it gets if it has none.
func (p *plane) rootsOf(iid uint32) uint32 {
	p.t.Helper()
	index, ok := p.roots[iid]
	if !ok {
		index = uint32(len(p.roots)) + 1
		p.roots[iid] = index
		p.update("instances", iid, p.encode("lisp_instance", fields{"iid": iid, "roots": index}))
	}
	return index
}

// insert takes prefixes in the order of their lengths, so that each may overwrite what it covers.
func insert(nodes []node, l leaf) []node {
	octets, bits, at := l.prefix.Masked().Addr().AsSlice(), l.prefix.Bits(), 0
	for ; bits > 8; bits -= 8 {
		slot := nodes[at][octets[0]]
		if slot&slotNode == 0 {
			var child node
			for i := range child {
				child[i] = slot
			}
			nodes = append(nodes, child)
			slot = slotOf(len(nodes) - 1)
			nodes[at][octets[0]] = slot
		}
		at, octets = int(slot&indexOfSlot)/cellsOfNode, octets[1:]
	}
	for i := range 1 << (8 - bits) {
		nodes[at][int(octets[0])+i] = slotLeaf | l.mapping
	}
	return nodes
}

// counted sums a per-CPU counter.
func (p *plane) counted(mapName string, index uint32) uint64 {
	p.t.Helper()
	var perCPU [][]byte
	if err := p.coll.Maps[mapName].Lookup(index, &perCPU); err != nil {
		p.t.Fatalf("read %s: %v", mapName, err)
	}
	var packets uint64
	for _, c := range perCPU {
		packets += binary.LittleEndian.Uint64(c)
	}
	return packets
}

// dropped counts by reason, counter by index of abi.h.
func (p *plane) dropped(reason string) uint64 { return p.counted("drops", p.constant(reason)) }
func (p *plane) counter(index string) uint64  { return p.counted("counters", p.constant(index)) }

// allDrops describes everything that was dropped, for messages.
func (p *plane) allDrops() string {
	out := ""
	for typ := range p.spec.Types.All() {
		enum, ok := typ.(*btf.Enum)
		if !ok || (enum.Name != "lisp_drop" && enum.Name != "lisp_counter_index") {
			continue
		}
		name := map[string]string{"lisp_drop": "drops", "lisp_counter_index": "counters"}[enum.Name]
		for _, v := range enum.Values {
			if v.Name == "LISP_DROP_MAX" || v.Name == "LISP_COUNTER_MAX" {
				continue
			}
			if n := p.counted(name, uint32(v.Value)); n > 0 {
				out += fmt.Sprintf("%s=%d ", v.Name, n)
			}
		}
	}
	return out
}

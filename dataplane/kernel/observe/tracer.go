// SPDX-License-Identifier: Apache-2.0

// This file tells what the programs decide about one packet, and by which steps (bpf/abi.h, tracing): copies of them, with
// the tables in force, are run on the packet and attached nowhere. So a trace counts nothing, raises no event, makes
// nothing wait and sends nothing; it needs no daemon.

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/store"
	"loci/forward"
)

// ErrNothingInForce says that an instance has no tables: no daemon ran, or its data
// plane was detached.
var ErrNothingInForce = errors.New("no data plane is in force")

// privateMaps are those that programs write to. The copies have their own. To the mappings and to the backlog they would write as well, and
// to decisions: that they leave alone (lisp_tracing).
var privateMaps = map[string]uint32{ // to the number of entries where that is not the programs' own
	abi.MapMappingCounters: 1, abi.MapCounters: 0, abi.MapDrops: 0, abi.MapLimits: 0, abi.MapEvents: 0, abi.MapSteps: 0, abi.MapWatch: 0, abi.MapSamples: 0,
	abi.MapPendingSamples: 0,
	abi.MapActions:        0, abi.MapClocks: 0, abi.MapCutting: 0,
	abi.MapPeers: 1024, abi.MapHeard: 1024, abi.MapSources: 1024, abi.MapTrusted: 0, abi.MapContexts: 0, abi.MapSecondLayers: 0,
}

// Tracer traces packets through the tables of an instance. It is for one goroutine.
type Tracer struct {
	store    *store.Store
	copies   *ebpf.Collection
	steps    *ringbuf.Reader
	taken    map[uint32]abi.Interface
	settings abi.Settings
}

// TracedPacket is a packet at an interface. Segment is zero for a packet that is not a
// GSO packet.
type TracedPacket struct {
	Ifindex uint32
	Leaves  bool   // this host sends it by the interface, rather than that it came in there
	Packet  []byte // an IP packet
	Segment int    // octets of payload in each segment of a GSO packet
	VLAN    uint16 // the frame's 802.1Q tag; 0: it has none
}

// OpenTracer finds an instance by its pins. The errors are ErrNothingInForce,
// store.ErrABI and those of the system. The caller's thread must be in the instance's
// network namespace, then and when it traces.
func OpenTracer(pinDirectory, instance string) (*Tracer, error) {
	maps := pins.MapsOf(pinDirectory, instance)
	if _, err := os.Stat(maps); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s", ErrNothingInForce, maps)
	}
	t := &Tracer{taken: map[uint32]abi.Interface{}}
	if err := t.open(maps); err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: %w", err), t.Close())
	}
	return t, nil
}

func (t *Tracer) open(directory string) (err error) {
	if t.store, err = store.OpenPinned(directory); err != nil {
		return err
	}
	if err := t.store.Map(abi.MapSettings).Lookup(uint32(0), &t.settings); err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	var ifindex uint32
	var record abi.Interface
	entries := t.store.Map(abi.MapInterfaces).Iterate()
	for entries.Next(&ifindex, &record) {
		t.taken[ifindex] = record
	}
	return errors.Join(entries.Err(), t.load())
}

// load makes the copies.
func (t *Tracer) load() (err error) {
	spec := t.store.Spec.Copy()
	for name, value := range map[string]uint32{
		abi.VarTracing: 1, abi.VarMappingLimit: 1, abi.VarDecapL3Flags: map[bool]uint32{true: 1}[features.HaveDecapFlags()],
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("preparing the BPF programs: %w", err)
		}
	}
	spec.Maps[abi.MapActions].MaxEntries = t.store.Map(abi.MapActions).MaxEntries()
	replacements := map[string]*ebpf.Map{}
	for name, m := range t.store.Maps() {
		entries, private := privateMaps[name]
		switch {
		case private && entries != 0:
			spec.Maps[name].MaxEntries = entries
		case !private && spec.Maps[name] != nil:
			replacements[name] = m
		}
	}
	if t.copies, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replacements}); err != nil {
		return fmt.Errorf("loading copies of the BPF programs: %w", err)
	}
	if t.steps, err = ringbuf.NewReader(t.copies.Maps[abi.MapSteps]); err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	t.steps.SetDeadline(time.Unix(1, 0)) // what is there, and no waiting for more
	return nil
}

// PrivateMap is the copies' own map of a name; tests look into it.
func (t *Tracer) PrivateMap(name string) *ebpf.Map { return t.copies.Maps[name] }

// Close lets go of everything; what is in force stays.
func (t *Tracer) Close() error {
	var errs []error
	if t.steps != nil {
		errs = append(errs, t.steps.Close())
	}
	if t.copies != nil {
		t.copies.Close()
	}
	if t.store != nil {
		errs = append(errs, t.store.Close())
	}
	return errors.Join(errs...)
}

// Trace tells what becomes of a packet. It is an error when the interface is none of
// the instance's, or a kind that cannot be traced.
func (t *Tracer) Trace(p TracedPacket) (Trace, error) {
	taken, ok := t.taken[p.Ifindex]
	if !ok {
		return Trace{}, fmt.Errorf("interface %d is none that the data plane watches", p.Ifindex)
	}
	if taken.L2Length != etherOctets {
		return Trace{}, fmt.Errorf("interface %d has no Ethernet header: packets there cannot be traced", p.Ifindex)
	}
	if _, err := forward.ParseHeader(p.Packet); err != nil && len(p.Packet) < ipv6Octets {
		return Trace{}, fmt.Errorf("a packet of %d octets cannot be traced: %w", len(p.Packet), err) // the kernel would not run it
	}
	program := programAt(taken.Flags, p.Leaves)
	if p.VLAN != 0 && !p.Leaves {
		program = abi.ProgramSiteIngress // tags stand for sites alone
	}
	out, err := t.run(program, p, frameFor(taken, p))
	if err != nil {
		return Trace{}, err
	}
	return t.tell(program, out)
}

const (
	etherOctets = 14
	tagOctets   = 4
	ipv6Octets  = 40

	// Places in struct __sk_buff, which BPF_PROG_TEST_RUN takes as the context, and its length.
	skbIfindex        = 40
	skbIngressIfindex = 36
	skbGSOSize        = 176
	skbContextOctets  = 192
	// outputOctets is room for the headers that a program adds.
	outputOctets = 256
)

// programAt names the program that sees such packets.
func programAt(flags uint32, leaves bool) string {
	is := func(flag uint32) bool { return flags&flag != 0 }
	switch {
	case is(abi.InterfaceTAP):
		return abi.ProgramLispEgress
	case leaves:
		return abi.ProgramCoreEgress
	case is(abi.InterfaceCore):
		return abi.ProgramCoreIngress
	}
	return abi.ProgramSiteIngress
}

// frameFor puts the packet behind an Ethernet header that makes it one for this host.
func frameFor(at abi.Interface, p TracedPacket) []byte {
	frame := make([]byte, etherOctets, etherOctets+tagOctets+len(p.Packet))
	copy(frame, at.Mac[:])
	frame[6] = 2 // from a locally administered address
	protocol := uint16(unix.ETH_P_IP)
	if len(p.Packet) > 0 && p.Packet[0]>>4 == 6 {
		protocol = unix.ETH_P_IPV6
	}
	if p.VLAN != 0 {
		binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_8021Q)
		frame = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(frame, p.VLAN), protocol)
		return append(frame, p.Packet...)
	}
	binary.BigEndian.PutUint16(frame[12:], protocol)
	return append(frame, p.Packet...)
}

func (t *Tracer) run(program string, p TracedPacket, frame []byte) ([]byte, error) {
	context := make([]byte, skbContextOctets)
	binary.NativeEndian.PutUint32(context[skbIfindex:], p.Ifindex)
	if !p.Leaves {
		binary.NativeEndian.PutUint32(context[skbIngressIfindex:], p.Ifindex)
	}
	binary.NativeEndian.PutUint32(context[skbGSOSize:], uint32(p.Segment))
	options := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+outputOctets), Context: context}
	if _, err := t.copies.Programs[program].Run(&options); err != nil {
		return nil, fmt.Errorf("running %s on the packet: %w", program, err)
	}
	return options.DataOut, nil
}

// read takes the steps of the last run.
func (t *Tracer) read() ([]abi.Step, error) {
	var steps []abi.Step
	var record ringbuf.Record
	for {
		err := t.steps.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return steps, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the steps: %w", err)
		}
		if len(record.RawSample) < int(unsafe.Sizeof(abi.Step{})) {
			return nil, fmt.Errorf("a step of %d octets", len(record.RawSample))
		}
		steps = append(steps, *(*abi.Step)(unsafe.Pointer(&record.RawSample[0])))
	}
}

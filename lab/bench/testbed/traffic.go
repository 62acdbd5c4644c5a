// SPDX-License-Identifier: Apache-2.0

// The generator and the sinks of one line, as Go drives them: BPF_PROG_TEST_RUN in live-frame mode writes packets and sends
// them out of src; tcx or XDP programs count what arrives.
//
// Everything runs in the softirq of the one core that the generator's thread is pinned to: after each burst the kernel takes
// it through both routers to the sink before the next burst begins. So the generator offers as much as the path takes, and
// what is lost is lost because a burst overran a queue.

package testbed

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	testLiveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	loopbackIndex  = 1      // of lo, in every namespace
	MaxBurst       = 64     // frames in one batch; a NAPI poll takes as many
	framesPerCall  = 8192   // so that a call takes some 10 ms, and a deadline is kept
	singlesPerCall = 1024   // the same for frames that are sent one at a time
	settleWait     = 2 * time.Millisecond
)

// Traffic is the programs of one line.
type Traffic struct {
	objects  trafficObjects
	From     *testnet.Namespace // where the generator runs
	Settings trafficBenchSettings
	Streams  uint16 // so far; the magic of the latest one
	longer   int    // octets that frames have beyond the Frame of Settings, all zero
}

// TrafficSizes are what the programs have room for; 0 is the default.
type TrafficSizes struct {
	Slots        uint32 // packets that can be timed in one run
	Stages       uint32 // packets whose resolution can be timed by its stages
	Destinations uint32 // that are no consecutive addresses
}

// NewTraffic loads the programs.
func NewTraffic(sizes TrafficSizes) (*Traffic, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, fmt.Errorf("programs of the bench: %w", err)
	}
	if sizes.Slots > 0 {
		spec.Maps[trafficMapSlots].MaxEntries = sizes.Slots
	}
	if sizes.Stages > 0 {
		spec.Maps[trafficMapStages].MaxEntries = sizes.Stages
	}
	if sizes.Destinations > 0 {
		spec.Maps[trafficMapAddresses].MaxEntries = sizes.Destinations
	}
	t := &Traffic{}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, fmt.Errorf("load the programs of the bench: %w", err)
	}
	return t, nil
}

// Programs are the ones of bpf/bench_traffic.bpf.c.
func (t *Traffic) Programs() *trafficPrograms { return &t.objects.trafficPrograms }

// Close unloads the programs.
func (t *Traffic) Close() error { return t.objects.Close() }

// Attach puts programs into a line: the sink at dst, and NAPI at the enc end of src's link, which frames need there.
func (l *Line) Attach() error { return l.AttachFor(TrafficSizes{}) }

// AttachFor is Attach with room for more packets or destinations than usual.
func (l *Line) AttachFor(sizes TrafficSizes) error {
	t, err := NewTraffic(sizes)
	if err != nil {
		return err
	}
	l.Traffic = t
	l.Closers = append(l.Closers, t.Close)
	if err := l.KeepDispatched(); err != nil {
		return err
	}
	if l.Arm.Frames {
		return l.AttachXDP(l.Dst, HostLink, t.objects.BenchSinkXdp)
	}
	return errors.Join(l.Enc.SetOffload(SiteLink, testnet.GRO, true), l.AttachTCX(l.Dst, HostLink, t.objects.BenchSinkTc, &l.Closers))
}

// AttachTCX puts a program before everything else that an interface receives; what detaches it goes to closers.
func (l *Line) AttachTCX(ns *testnet.Namespace, name string, program *ebpf.Program, closers *[]func() error) error {
	return AttachTCXAt(ebpf.AttachTCXIngress, ns, name, program, closers)
}

// AttachTCXAt is AttachTCX for packets that an interface receives, or sends.
func AttachTCXAt(where ebpf.AttachType, ns *testnet.Namespace, name string, program *ebpf.Program, closers *[]func() error) error {
	at, err := LinkOf(ns, name)
	if err != nil {
		return err
	}
	return hold(ns, closers, func() (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{
			Interface: at.Index, Program: program, Attach: where, Anchor: link.Head(),
		})
	})
}

// KeepDispatched attaches the generator where no packet ever is. The kernel keeps a table of XDP programs in use, whose
// change takes 20 ms; without this, each call would change it twice.
func (l *Line) KeepDispatched() error { return KeepDispatchedIn(l.Src, l.Traffic, &l.Closers) }

// KeepDispatchedIn is KeepDispatched for a generator in any namespace.
func KeepDispatchedIn(ns *testnet.Namespace, t *Traffic, closers *[]func() error) error {
	return hold(ns, closers, func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Interface: loopbackIndex, Program: t.objects.BenchGenerate, Flags: link.XDPGenericMode})
	})
}

// AttachXDP makes an interface hand its frames to a program until the line is closed.
func (l *Line) AttachXDP(ns *testnet.Namespace, name string, program *ebpf.Program) error {
	at, err := LinkOf(ns, name)
	if err != nil {
		return err
	}
	return hold(ns, &l.Closers, func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Interface: at.Index, Program: program, Flags: link.XDPDriverMode})
	})
}

func hold(ns *testnet.Namespace, closers *[]func() error, attach func() (link.Link, error)) error {
	return ns.Do(func() error {
		attached, err := attach()
		if err != nil {
			return fmt.Errorf("attach a program of the bench in %s (tcx needs Linux 6.6): %w", ns.Name(), err)
		}
		*closers = append(*closers, attached.Close)
		return nil
	})
}

// Redirect makes one router a program that sends everything to one next hop.
func (l *Line) Redirect(ns *testnet.Namespace, in, out string, next *testnet.Namespace, nextLink string) error {
	t, err := NewTraffic(TrafficSizes{})
	if err != nil {
		return err
	}
	l.Closers = append(l.Closers, t.Close)
	own, err := LinkOf(ns, out)
	if err != nil {
		return err
	}
	peer, err := LinkOf(next, nextLink)
	if err != nil {
		return err
	}
	hop := trafficBenchHop{Ifindex: uint32(own.Index)}
	copy(hop.Macs[:6], peer.HardwareAddr)
	copy(hop.Macs[6:], own.HardwareAddr)
	if err := t.objects.Hop.Set(hop); err != nil {
		return err
	}
	return l.AttachXDP(ns, in, t.objects.BenchRedirect)
}

// SetDestinations says where packets of a stream to listed destinations go, from a place of the list on.
func (t *Traffic) SetDestinations(first int, destinations []uint64) error {
	keys := make([]uint32, len(destinations))
	for i := range keys {
		keys[i] = uint32(first + i)
	}
	_, err := t.objects.Addresses.BatchUpdate(keys, destinations, nil)
	return err
}

// Stream says what to send.
type Stream struct {
	Pair         Pair
	Flows        uint32
	Destinations uint32
	Upper        bool // IPv6 destinations differ in their first 64 bits, not in the last
	Octets       int  // of each packet, beginning with its IP header; 0 is PacketOctets
}

// Aim prepares src to send a stream, and the sink at dst to expect it.
func (l *Line) Aim(s Stream) error { return l.AimAt(s, s.Pair.Destination()) }

// AimAt is aim at another destination than the pair's.
func (l *Line) AimAt(s Stream, destination netip.Addr) error {
	out, err := LinkOf(l.Src, HostLink)
	if err != nil {
		return err
	}
	next, err := LinkOf(l.Enc, SiteLink)
	if err != nil {
		return err
	}
	l.Traffic.Streams++
	octets := cmp.Or(s.Octets, PacketOctets)
	packet := [PacketOctets]byte(longPacket(s.Pair.Source(), destination, l.Traffic.Streams, octets))
	frame := append(append([]byte{}, next.HardwareAddr...), out.HardwareAddr...)
	frame = binary.BigEndian.AppendUint16(frame, EtherType(s.Pair.Inner4()))
	l.Traffic.From = l.Src
	l.Traffic.Expect(s, packet, destination)
	l.Traffic.Settings.Ifindex = uint32(out.Index)
	l.Traffic.Settings.Ttl = uint32(SentTTL - len(l.routers())*l.Arm.Hops)
	l.Traffic.Send(append(frame, packet[:]...), EthernetOctets)
	l.Traffic.longer = octets - PacketOctets
	return nil
}

// EtherType is that of IPv4 or IPv6.
func EtherType(ipv4 bool) uint16 {
	if ipv4 {
		return unix.ETH_P_IP
	}
	return unix.ETH_P_IPV6
}

// Expect has the sinks expect a stream whose first packet is this one.
func (t *Traffic) Expect(s Stream, packet [PacketOctets]byte, destination netip.Addr) {
	differ, fixed := HalvesOf(destination, s.Upper)
	t.Settings = trafficBenchSettings{
		Packet: packet, Family: 6, Flows: s.Flows, Destinations: s.Destinations, FirstPort: firstPort,
		FirstDestination: differ, FixedSum: sumOf(fixed), Checksum: HeaderSum(packet), SinkOffset: EthernetOctets,
	}
	if s.Pair.Inner4() {
		t.Settings.Family = 4
	} else if s.Upper {
		t.Settings.Upper = 1
	}
}

// Send sets the frame, with its inner packet at the offset.
func (t *Traffic) Send(frame []byte, inner int) {
	t.Settings.Frame = [192]uint8{}
	copy(t.Settings.Frame[:], frame)
	t.Settings.FrameLength, t.Settings.InnerOffset, t.longer = uint32(len(frame)), uint32(inner), 0
}

// Outcome is what one run counted.
type Outcome struct {
	Sent, Received uint64
	elapsed        time.Duration
}

// Lost is how many packets did not arrive.
func (o Outcome) Lost() uint64 { return o.Sent - o.Received }

// PerSecond is the rate of those that did.
func (o Outcome) PerSecond() float64 { return float64(o.Received) / o.elapsed.Seconds() }

// Limits of one run; the first that is reached ends it.
type Limits struct {
	Length time.Duration // 0 is none
	Frames uint32        // 0 is none
	Burst  uint32        // frames between which the generator does not wait
}

// Run sends bursts up to a limit, and returns what arrived. A wrong packet, or one that arrived twice, is an error; loss is
// not.
func (t *Traffic) Run(ctx context.Context, until Limits) (Outcome, error) {
	if err := t.Reset(); err != nil {
		return Outcome{}, err
	}
	var elapsed time.Duration
	err := t.From.Do(func() error {
		return OnOneCore(func() (err error) {
			elapsed, err = t.sendUntil(ctx, until)
			return err
		})
	})
	if err != nil {
		return Outcome{}, err
	}
	o, err := t.settle()
	o.elapsed = elapsed
	return o, err
}

func (t *Traffic) sendUntil(ctx context.Context, until Limits) (time.Duration, error) {
	began := time.Now()
	for sent := uint32(0); ; {
		count := uint32(framesPerCall)
		if until.Burst == 1 {
			count = singlesPerCall
		}
		if until.Frames > 0 {
			count = min(count, until.Frames-sent)
		}
		if err := errors.Join(ctx.Err(), t.SendFrames(count, until.Burst)); err != nil {
			return 0, err
		}
		sent += count
		elapsed := time.Since(began)
		if sent == until.Frames || (until.Length > 0 && elapsed >= until.Length) {
			return elapsed, nil
		}
	}
}

// SendFrames makes the kernel run the generator that many times. The calling thread must be in the generator's namespace.
func (t *Traffic) SendFrames(count, burst uint32) error {
	frame := t.Settings.Frame[:t.Settings.FrameLength:t.Settings.FrameLength]
	if t.longer > 0 {
		frame = append(frame, make([]byte, t.longer)...)
	}
	_, err := t.objects.BenchGenerate.Run(&ebpf.RunOptions{
		Data: frame, Repeat: count, Flags: testLiveFrames, BatchSize: burst,
	})
	if err != nil {
		return fmt.Errorf("send live frames: %w", err)
	}
	return nil
}

// Reset begins a new count with the settings.
func (t *Traffic) Reset() error {
	zero := make([]trafficBenchCounts, ebpf.MustPossibleCPU())
	return errors.Join(t.objects.Settings.Set(t.Settings), t.objects.NextSequence.Set(uint32(0)), t.objects.Counts.Put(uint32(0), zero))
}

// settle waits for packets that are still under way, until nothing comes any more, then counts.
func (t *Traffic) settle() (Outcome, error) {
	o, err := t.Count()
	for err == nil && o.Lost() > 0 {
		time.Sleep(settleWait)
		before := o.Received
		if o, err = t.Count(); o.Received == before {
			break
		}
	}
	return o, err
}

// SettleFor waits for everything that was sent, but not longer than the limit, then counts.
func (t *Traffic) SettleFor(ctx context.Context, limit time.Duration) (Outcome, error) {
	o, err := t.Count()
	for deadline := time.Now().Add(limit); err == nil && o.Lost() > 0 && time.Now().Before(deadline); {
		time.Sleep(settleWait)
		if o, err = t.Count(); ctx.Err() != nil {
			return o, ctx.Err()
		}
	}
	return o, err
}

// Count tells what was sent and what arrived; a wrong packet, or one that arrived twice, is an error.
func (t *Traffic) Count() (Outcome, error) {
	var sent uint32
	var perCPU []trafficBenchCounts
	if err := errors.Join(t.objects.NextSequence.Get(&sent), t.objects.Counts.Lookup(uint32(0), &perCPU)); err != nil {
		return Outcome{}, err
	}
	var sum trafficBenchCounts
	for _, c := range perCPU {
		sum.Received += c.Received
		sum.Wrong += c.Wrong
		sum.SequenceSum += c.SequenceSum
		sum.Repeated += c.Repeated
	}
	n := uint64(sent)
	switch {
	case sum.Wrong > 0:
		return Outcome{}, fmt.Errorf("%d of %d packets arrived changed", sum.Wrong, n)
	case sum.Repeated > 0 || sum.Received > n || (sum.Received == n && sum.SequenceSum != n*(n-1)/2):
		return Outcome{}, fmt.Errorf("%d packets were sent, %d arrived, some of them twice", n, sum.Received)
	}
	return Outcome{Sent: n, Received: sum.Received}, nil
}

// OnOneCore pins the calling thread, which the caller has locked, to the last core it may use while f runs.
func OnOneCore(f func() error) error {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("own cores: %w", err)
	}
	last := runtime.NumCPU() - 1
	for cpu := range len(before) * 64 {
		if before.IsSet(cpu) {
			last = cpu
		}
	}
	one.Set(last)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to core %d: %w", last, err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

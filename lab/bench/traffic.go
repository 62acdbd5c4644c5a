// SPDX-License-Identifier: Apache-2.0

// The generator and the sinks of one line, as Go drives them: BPF_PROG_TEST_RUN in live-frame mode writes packets and sends
// them out of src; tcx or XDP programs count what arrives.
//
// Everything runs in the softirq of the one core that the generator's thread is pinned to: after each burst the kernel takes
// it through both routers to the sink before the next burst begins. So the generator offers as much as the path takes, and
// what is lost is lost because a burst overran a queue.

package bench

import (
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
	maxBurst       = 64     // frames in one batch; a NAPI poll takes as many
	framesPerCall  = 8192   // so that a call takes some 10 ms, and a deadline is kept
	singlesPerCall = 1024   // the same for frames that are sent one at a time
	settleWait     = 2 * time.Millisecond
)

// traffic is the programs of one line.
type traffic struct {
	objects  trafficObjects
	from     *testnet.Namespace // where the generator runs
	settings trafficBenchSettings
	streams  uint16 // so far; the magic of the latest one
}

// trafficSizes are what the programs have room for; 0 is the default.
type trafficSizes struct {
	slots        uint32 // packets that can be timed in one run
	stages       uint32 // packets whose resolution can be timed by its stages
	destinations uint32 // that are no consecutive addresses
}

// newTraffic loads the programs.
func newTraffic(sizes trafficSizes) (*traffic, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, fmt.Errorf("programs of the bench: %w", err)
	}
	if sizes.slots > 0 {
		spec.Maps[trafficMapSlots].MaxEntries = sizes.slots
	}
	if sizes.stages > 0 {
		spec.Maps[trafficMapStages].MaxEntries = sizes.stages
	}
	if sizes.destinations > 0 {
		spec.Maps[trafficMapAddresses].MaxEntries = sizes.destinations
	}
	t := &traffic{}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, fmt.Errorf("load the programs of the bench: %w", err)
	}
	return t, nil
}

// attach puts programs into a line: the sink at dst, and NAPI at the enc end of src's link, which frames need there.
func (l *line) attach() error { return l.attachFor(trafficSizes{}) }

func (l *line) attachFor(sizes trafficSizes) error {
	t, err := newTraffic(sizes)
	if err != nil {
		return err
	}
	l.traffic = t
	l.closers = append(l.closers, t.objects.Close)
	if err := l.keepDispatched(); err != nil {
		return err
	}
	if l.arm.frames {
		return l.attachXDP(l.dst, hostLink, t.objects.BenchSinkXdp)
	}
	return errors.Join(l.enc.SetOffload(siteLink, testnet.GRO, true), l.attachTCX(l.dst, hostLink, t.objects.BenchSinkTc, &l.closers))
}

// attachTCX puts a program before everything else that an interface receives; what detaches it goes to closers.
func (l *line) attachTCX(ns *testnet.Namespace, name string, program *ebpf.Program, closers *[]func() error) error {
	return attachTCXAt(ebpf.AttachTCXIngress, ns, name, program, closers)
}

func attachTCXAt(where ebpf.AttachType, ns *testnet.Namespace, name string, program *ebpf.Program, closers *[]func() error) error {
	at, err := linkOf(ns, name)
	if err != nil {
		return err
	}
	return hold(ns, closers, func() (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{
			Interface: at.Index, Program: program, Attach: where, Anchor: link.Head(),
		})
	})
}

// keepDispatched attaches the generator where no packet ever is. The kernel keeps a table of XDP programs in use, whose
// change takes 20 ms; without this, each call would change it twice.
func (l *line) keepDispatched() error { return keepDispatchedIn(l.src, l.traffic, &l.closers) }

func keepDispatchedIn(ns *testnet.Namespace, t *traffic, closers *[]func() error) error {
	return hold(ns, closers, func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Interface: loopbackIndex, Program: t.objects.BenchGenerate, Flags: link.XDPGenericMode})
	})
}

func (l *line) attachXDP(ns *testnet.Namespace, name string, program *ebpf.Program) error {
	at, err := linkOf(ns, name)
	if err != nil {
		return err
	}
	return hold(ns, &l.closers, func() (link.Link, error) {
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

// attachRedirect makes one router a program that sends everything to one next hop.
func (l *line) attachRedirect(ns *testnet.Namespace, in, out string, next *testnet.Namespace, nextLink string) error {
	t, err := newTraffic(trafficSizes{})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, t.objects.Close)
	own, err := linkOf(ns, out)
	if err != nil {
		return err
	}
	peer, err := linkOf(next, nextLink)
	if err != nil {
		return err
	}
	hop := trafficBenchHop{Ifindex: uint32(own.Index)}
	copy(hop.Macs[:6], peer.HardwareAddr)
	copy(hop.Macs[6:], own.HardwareAddr)
	if err := t.objects.Hop.Set(hop); err != nil {
		return err
	}
	return l.attachXDP(ns, in, t.objects.BenchRedirect)
}

// stream says what to send.
type stream struct {
	pair         pair
	flows        uint32
	destinations uint32
	upper        bool // IPv6 destinations differ in their first 64 bits, not in the last
}

// aim prepares src to send a stream, and the sink at dst to expect it.
func (l *line) aim(s stream) error { return l.aimAt(s, s.pair.destination()) }

// aimAt is aim at another destination than the pair's.
func (l *line) aimAt(s stream, destination netip.Addr) error {
	out, err := linkOf(l.src, hostLink)
	if err != nil {
		return err
	}
	next, err := linkOf(l.enc, siteLink)
	if err != nil {
		return err
	}
	l.traffic.streams++
	packet := innerPacket(s.pair.source(), destination, l.traffic.streams)
	frame := append(append([]byte{}, next.HardwareAddr...), out.HardwareAddr...)
	frame = binary.BigEndian.AppendUint16(frame, etherType(s.pair.inner4()))
	l.traffic.from = l.src
	l.traffic.expect(s, packet, destination)
	l.traffic.settings.Ifindex = uint32(out.Index)
	l.traffic.settings.Ttl = uint32(sentTTL - 2*l.arm.hops)
	l.traffic.send(append(frame, packet[:]...), ethernetOctets)
	return nil
}

func etherType(ipv4 bool) uint16 {
	if ipv4 {
		return unix.ETH_P_IP
	}
	return unix.ETH_P_IPV6
}

func (t *traffic) expect(s stream, packet [packetOctets]byte, destination netip.Addr) {
	differ, fixed := halvesOf(destination, s.upper)
	t.settings = trafficBenchSettings{
		Packet: packet, Family: 6, Flows: s.flows, Destinations: s.destinations, FirstPort: firstPort,
		FirstDestination: differ, FixedSum: sumOf(fixed), Checksum: headerSum(packet), SinkOffset: ethernetOctets,
	}
	if s.pair.inner4() {
		t.settings.Family = 4
	} else if s.upper {
		t.settings.Upper = 1
	}
}

// send sets the frame, with its inner packet at the offset.
func (t *traffic) send(frame []byte, inner int) {
	t.settings.Frame = [192]uint8{}
	copy(t.settings.Frame[:], frame)
	t.settings.FrameLength, t.settings.InnerOffset = uint32(len(frame)), uint32(inner)
}

// outcome is what one run counted.
type outcome struct {
	sent, received uint64
	elapsed        time.Duration
}

func (o outcome) lost() uint64       { return o.sent - o.received }
func (o outcome) perSecond() float64 { return float64(o.received) / o.elapsed.Seconds() }

// limits of one run; the first that is reached ends it.
type limits struct {
	length time.Duration // 0 is none
	frames uint32        // 0 is none
	burst  uint32        // frames between which the generator does not wait
}

// run sends bursts up to a limit, and returns what arrived. A wrong packet, or one that arrived twice, is an error; loss is
// not.
func (t *traffic) run(ctx context.Context, until limits) (outcome, error) {
	if err := t.reset(); err != nil {
		return outcome{}, err
	}
	var elapsed time.Duration
	err := t.from.Do(func() error {
		return onOneCore(func() (err error) {
			elapsed, err = t.sendUntil(ctx, until)
			return err
		})
	})
	if err != nil {
		return outcome{}, err
	}
	o, err := t.settle()
	o.elapsed = elapsed
	return o, err
}

func (t *traffic) sendUntil(ctx context.Context, until limits) (time.Duration, error) {
	began := time.Now()
	for sent := uint32(0); ; {
		count := uint32(framesPerCall)
		if until.burst == 1 {
			count = singlesPerCall
		}
		if until.frames > 0 {
			count = min(count, until.frames-sent)
		}
		if err := errors.Join(ctx.Err(), t.sendFrames(count, until.burst)); err != nil {
			return 0, err
		}
		sent += count
		elapsed := time.Since(began)
		if sent == until.frames || (until.length > 0 && elapsed >= until.length) {
			return elapsed, nil
		}
	}
}

// sendFrames makes the kernel run the generator that many times. The calling thread must be in the generator's namespace.
func (t *traffic) sendFrames(count, burst uint32) error {
	_, err := t.objects.BenchGenerate.Run(&ebpf.RunOptions{
		Data: t.settings.Frame[:t.settings.FrameLength], Repeat: count, Flags: testLiveFrames, BatchSize: burst,
	})
	if err != nil {
		return fmt.Errorf("send live frames: %w", err)
	}
	return nil
}

func (t *traffic) reset() error {
	zero := make([]trafficBenchCounts, ebpf.MustPossibleCPU())
	return errors.Join(t.objects.Settings.Set(t.settings), t.objects.NextSequence.Set(uint32(0)), t.objects.Counts.Put(uint32(0), zero))
}

// settle waits for what is still on its way, until nothing comes any more, then counts.
func (t *traffic) settle() (outcome, error) {
	o, err := t.count()
	for err == nil && o.lost() > 0 {
		time.Sleep(settleWait)
		before := o.received
		if o, err = t.count(); o.received == before {
			break
		}
	}
	return o, err
}

// settleFor waits for everything that was sent, but not longer than the limit, then counts.
func (t *traffic) settleFor(ctx context.Context, limit time.Duration) (outcome, error) {
	o, err := t.count()
	for deadline := time.Now().Add(limit); err == nil && o.lost() > 0 && time.Now().Before(deadline); {
		time.Sleep(settleWait)
		if o, err = t.count(); ctx.Err() != nil {
			return o, ctx.Err()
		}
	}
	return o, err
}

func (t *traffic) count() (outcome, error) {
	var sent uint32
	var perCPU []trafficBenchCounts
	if err := errors.Join(t.objects.NextSequence.Get(&sent), t.objects.Counts.Lookup(uint32(0), &perCPU)); err != nil {
		return outcome{}, err
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
		return outcome{}, fmt.Errorf("%d of %d packets arrived changed", sum.Wrong, n)
	case sum.Repeated > 0 || sum.Received > n || (sum.Received == n && sum.SequenceSum != n*(n-1)/2):
		return outcome{}, fmt.Errorf("%d packets were sent, %d arrived, some of them twice", n, sum.Received)
	}
	return outcome{sent: n, received: sum.Received}, nil
}

// onOneCore pins the calling thread, which the caller has locked, to the last core it may use while f runs.
func onOneCore(f func() error) error {
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

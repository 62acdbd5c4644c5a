// SPDX-License-Identifier: Apache-2.0

package relay

// The relay alone: encapsulated packets from Enc, one hop, a sink at Dec. The kernel says how long the relay's program ran
// (BPF_ENABLE_STATS), so that generator, links and sink are not part of the figure. Two readings of the clock are.

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// turns is how often packets of both kinds are sent in a slot, one after the other.
	turns = 5

	metricTime = "time for a packet"
)

// kind is packets to EIDs with one kind of locator.
type kind struct {
	arm string // as reports name it
	eid netip.Addr
}

// measureAlone is the time that the relay has for a packet to an EID with a plain RLOC, and beside it for one to an EID behind a path.
func (s *state) measureAlone(ctx context.Context, b *testbed.Run, l *testbed.Line, p testbed.Pair, slot time.Duration) (samples []report.Sample, err error) {
	program, err := programOf(l)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, fmt.Errorf("count the time of programs: %w", err)
	}
	defer counting.Close()
	kinds := [2]kind{{armAlone, testbed.Nth(testbed.DestinationsOf(p), 2)}, {armAlonePath, testbed.Nth(viaPath(p), 2)}}
	var spent [len(kinds)]spell
	for range turns {
		for i, k := range kinds {
			if err := aimAtRel(l, p, k.eid, 1); err != nil {
				return nil, err
			}
			before, err := program.Stats()
			if err != nil {
				return nil, err
			}
			if _, err := s.bursts.Measure(ctx, l.Traffic, k.arm+"/"+p.Name, slot/time.Duration(turns*len(kinds))); err != nil {
				return nil, fmt.Errorf("%s: %w", k.arm, err)
			}
			after, err := program.Stats()
			if err != nil {
				return nil, err
			}
			spent[i].add(before, after)
		}
	}
	b.Report.Add(casesPath+p.Name, armAlonePath, spent[1].samples())
	return spent[0].samples(), nil
}

// spell is what a program did.
type spell struct {
	time time.Duration
	runs uint64
}

func (s *spell) add(before, after *ebpf.ProgramStats) {
	s.time += after.Runtime - before.Runtime
	s.runs += after.RunCount - before.RunCount
}

func (s *spell) samples() []report.Sample {
	return []report.Sample{report.Figure(metricTime, "ns", float64(s.time.Nanoseconds())/float64(max(s.runs, 1)))}
}

// programOf is the relay's program for packets from Enc.
func programOf(l *testbed.Line) (*ebpf.Program, error) {
	attributes, err := testbed.LinkOf(l.Rel, testbed.CoreLink)
	if err != nil {
		return nil, err
	}
	if attributes.Xdp == nil || attributes.Xdp.ProgId == 0 {
		return nil, fmt.Errorf("%s of %s has no XDP program", testbed.CoreLink, l.Rel.Name())
	}
	return ebpf.NewProgramFromID(ebpf.ProgramID(attributes.Xdp.ProgId))
}

// aimAtRel has Enc send encapsulated packets to Rel, and the sink expect them from Rel, encapsulated. They go to so
// many destinations, one after the other.
func aimAtRel(l *testbed.Line, p testbed.Pair, destination netip.Addr, count int) error {
	out, err := testbed.LinkOf(l.Enc, testbed.CoreLink)
	if err != nil {
		return err
	}
	next, err := testbed.LinkOf(l.Rel, testbed.CoreLink)
	if err != nil {
		return err
	}
	t := l.Traffic
	t.Streams++
	packet := testbed.InnerPacket(p.Source(), destination, t.Streams)
	frame := append(append([]byte{}, next.HardwareAddr...), out.HardwareAddr...)
	frame = binary.BigEndian.AppendUint16(frame, testbed.EtherType(p.Outer4()))
	frame = append(frame, testbed.OuterHeaders(encRLOC(p), relRLOC(p))...)
	inner := len(frame)
	t.From = l.Enc
	t.Expect(testbed.Stream{Pair: p, Flows: 1, Destinations: uint32(count)}, packet, destination)
	t.Settings.Ifindex, t.Settings.SinkOffset = uint32(out.Index), uint32(inner)
	t.Settings.Ttl = uint32(testbed.SentTTL - l.Arm.Hops)
	t.Send(append(frame, packet[:]...), inner)
	return nil
}

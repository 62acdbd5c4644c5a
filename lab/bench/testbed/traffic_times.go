// SPDX-License-Identifier: Apache-2.0

// What the programs of one line wrote down of single packets: their delays, the stages of their resolution, and one frame as
// it arrived.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// ResolutionStages of a first packet: until the Map-Request leaves, until the Map-Server forwards it, until the Map-Reply is
// there, until the packet arrives.
const ResolutionStages = 4

// CaptureOne sends one packet and returns the frame that reached the sink.
func (t *Traffic) CaptureOne(ctx context.Context) ([]byte, error) {
	t.Settings.Capture = 1
	defer func() { t.Settings.Capture = 0 }()
	if err := t.objects.CapturedLength.Set(uint32(0)); err != nil {
		return nil, err
	}
	if _, err := t.Run(ctx, Limits{Frames: 1, Burst: 1}); err != nil {
		return nil, err
	}
	var length uint32
	var frame [192]uint8
	if err := errors.Join(t.objects.CapturedLength.Get(&length), t.objects.Captured.Get(&frame)); err != nil {
		return nil, err
	}
	if length < EthernetOctets+PacketOctets || int(length) > len(frame) {
		return nil, errors.New("the packet did not come out of enc")
	}
	return frame[:length], nil
}

// Times returns the delays of the first n packets in nanoseconds; those that did not arrive are left out.
func (t *Traffic) Times(n uint64) ([]float64, error) {
	keys, slots := make([]uint32, n), make([]trafficBenchSlot, n)
	var cursor ebpf.MapBatchCursor
	got, err := t.objects.Slots.BatchLookup(&cursor, keys, slots, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("read the times: %w", err)
	}
	var all []float64
	for _, s := range slots[:got] {
		if s.DelayNs > 0 {
			all = append(all, float64(s.DelayNs))
		}
	}
	return all, nil
}

// ForgetStages makes room for the next run.
func (t *Traffic) ForgetStages() error {
	var none trafficBenchStages
	for i := range t.objects.Stages.MaxEntries() {
		if err := t.objects.Stages.Put(i, none); err != nil {
			return fmt.Errorf("forget the stages: %w", err)
		}
	}
	return nil
}

// Stages returns the lengths of each stage in nanoseconds, sorted, of the first n packets; those that were not seen at every stage are
// left out.
func (t *Traffic) Stages(n uint64) (all [ResolutionStages][]float64, err error) {
	for i := range uint32(min(n, uint64(t.objects.Stages.MaxEntries()))) {
		var slot trafficBenchSlot
		var seen trafficBenchStages
		if err := errors.Join(t.objects.Slots.Lookup(i, &slot), t.objects.Stages.Lookup(i, &seen)); err != nil {
			return all, fmt.Errorf("read the stages: %w", err)
		}
		at := [...]uint64{slot.SentNs, seen.RequestedNs, seen.ForwardedNs, seen.RepliedNs, slot.SentNs + slot.DelayNs}
		if slot.DelayNs == 0 || !slices.IsSorted(at[:]) {
			continue
		}
		for stage := range all {
			all[stage] = append(all[stage], float64(at[stage+1]-at[stage]))
		}
	}
	for stage := range all {
		slices.Sort(all[stage])
	}
	return all, nil
}

// SPDX-License-Identifier: Apache-2.0

// Where the time of a first packet goes: programs at enc's links tell when the Map-Request left, when the Map-Server had forwarded it,
// and when the Map-Reply was there. They see whole messages of one record; messages that left as one are seen as one.

package bench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// missStages bounds the packets whose stages are kept: a minute and more of first packets.
const missStages = 4096

// stageNames in their order: each ends where the next one begins, the last with the packet's arrival.
var stageNames = [4]string{"until Map-Request", "in Map-Server", "in ETR", "after Map-Reply"}

func (l *line) attachStages() error {
	o, closers := &l.traffic.objects, &l.closers
	return errors.Join(
		attachTCXAt(ebpf.AttachTCXEgress, l.enc, missLink, o.BenchRequested, closers),
		l.attachTCX(l.enc, missLink, o.BenchForwarded, closers),
		l.attachTCX(l.enc, coreLink, o.BenchReplied, closers),
	)
}

// forgetStages makes room for the next run.
func (t *traffic) forgetStages() error {
	var none trafficBenchStages
	for i := range t.objects.Stages.MaxEntries() {
		if err := t.objects.Stages.Put(i, none); err != nil {
			return fmt.Errorf("forget the stages: %w", err)
		}
	}
	return nil
}

// stages returns the lengths of each stage in nanoseconds, sorted, of the first n packets; those that were not seen at every stage are
// left out.
func (t *traffic) stages(n uint64) (all [len(stageNames)][]float64, err error) {
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

// stageSamples are the percentiles of each stage.
func (t *traffic) stageSamples(n uint64) (samples []sample, err error) {
	all, err := t.stages(n)
	if err != nil || len(all[0]) == 0 {
		return nil, err
	}
	for stage, times := range all {
		samples = append(samples,
			sample{stageNames[stage] + " p50", "ms", percentile(times, 0.50) / 1e6},
			sample{stageNames[stage] + " p99", "ms", percentile(times, 0.99) / 1e6})
	}
	return samples, nil
}

// SPDX-License-Identifier: Apache-2.0

// Where the time of a first packet goes: programs at enc's links tell when the Map-Request left, when the Map-Server had forwarded it,
// and when the Map-Reply was there. They see whole messages of one record; messages that left as one are seen as one.

package misses

import (
	"errors"

	"github.com/cilium/ebpf"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// missStages bounds the packets whose stages are kept: a minute and more of first packets.
const missStages = 4096

// stageNames in their order: each ends where the next one begins, the last with the packet's arrival.
var stageNames = [testbed.ResolutionStages]string{"until Map-Request", "in Map-Server", "in ETR", "after Map-Reply"}

func attachStages(l *testbed.Line) error {
	o, closers := l.Traffic.Programs(), &l.Closers
	return errors.Join(
		testbed.AttachTCXAt(ebpf.AttachTCXEgress, l.Enc, missLink, o.BenchRequested, closers),
		l.AttachTCX(l.Enc, missLink, o.BenchForwarded, closers),
		l.AttachTCX(l.Enc, testbed.CoreLink, o.BenchReplied, closers),
	)
}

// stageSamples are the percentiles of each stage.
func stageSamples(t *testbed.Traffic, n uint64) (samples []report.Sample, err error) {
	all, err := t.Stages(n)
	if err != nil || len(all[0]) == 0 {
		return nil, err
	}
	for stage, times := range all {
		samples = append(samples,
			report.Figure(stageNames[stage]+" p50", "ms", report.Percentile(times, 0.50)/1e6),
			report.Figure(stageNames[stage]+" p99", "ms", report.Percentile(times, 0.99)/1e6))
	}
	return samples, nil
}

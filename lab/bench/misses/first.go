// SPDX-License-Identifier: Apache-2.0

// First packets of an ITR with either data plane, for a bench that compares them.

package misses

import (
	"context"
	"fmt"
	"slices"
	"time"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// FirstPackets is an arm of another bench: an ITR whose packets go to EIDs that no packet went to before.
type FirstPackets struct {
	engine string
	sent   missCounts
}

// NewFirstPackets makes the arm, with a data plane as `datapath.engine` names it.
func NewFirstPackets(engine string) *FirstPackets {
	return &FirstPackets{engine: engine, sent: missCounts{}}
}

// Arm has a mapping system and an ITR at Enc.
func (f *FirstPackets) Arm(name, key string) testbed.Arm {
	a := testbed.LociTC
	a.Name, a.Key = name, key
	a.Build = func(ctx context.Context, b *testbed.Run, l *testbed.Line) error {
		if _, err := buildMappingSystem(ctx, b, l); err != nil {
			return err
		}
		_, err := b.StartDaemon(ctx, l.Enc, missITRConfig(testbed.SiteLink)+"datapath:\n  engine: "+f.engine+"\n")
		return err
	}
	return a
}

// Prepare adds generator and sinks to the arm's line.
func (f *FirstPackets) Prepare(b *testbed.Run, l *testbed.Line) error { return prepareMiss(b, l) }

// Measure times first packets of a family of EIDs, "ipv4" or "ipv6".
func (f *FirstPackets) Measure(ctx context.Context, b *testbed.Run, l *testbed.Line, family string, slot time.Duration) ([]report.Sample, error) {
	i := slices.IndexFunc(missFamilies, func(m missFamily) bool { return m.name == family })
	if i < 0 {
		return nil, fmt.Errorf("no family %q", family)
	}
	m := &missRun{bench: b, line: l, family: missFamilies[i], sent: f.sent}
	return m.firstPackets(ctx, slot)
}

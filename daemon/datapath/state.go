// SPDX-License-Identifier: Apache-2.0

package datapath

// What is known of data paths, for those who ask, and what changed.

import (
	"slices"
	"time"

	"loci/lisp"
)

// Outcome is what is known of a data path.
type Outcome string

// The outcomes.
const (
	NotKnown  Outcome = "not-known"          // its router never answered a check, or none can be sent
	Passes    Outcome = "passes"             // the last checks were answered
	Lost      Outcome = "lost"               // nothing comes back
	LargeLost Outcome = "large-packets-lost" // small packets pass
)

// State is what is known of one data path.
type State struct {
	EIDPrefix  lisp.Prefix // one of its mappings
	Locators   []lisp.Path // that packets take
	Outcome    Outcome
	Since      time.Time // of Lost and LargeLost: when the first check went that was not answered
	CheckedAt  time.Time // of the last check
	AnsweredAt time.Time // of the last answer; zero for never, as the next
	Octets     int       // of the packets of full size that passed, or that are lost
	Towards    bool      // lost, and data packets still come from there
}

func (p *path) outcome() Outcome {
	switch {
	case p.small.answeredAt.IsZero(), !p.facts.Up:
		return NotKnown
	case p.small.isLost():
		return Lost
	case p.small.unsure:
		return NotKnown
	case p.full.isLost():
		return LargeLost
	}
	return Passes
}

func (p *path) state(now time.Time) State {
	s := State{
		EIDPrefix: p.prefix, Locators: p.facts.Taken, Outcome: p.outcome(),
		CheckedAt: p.small.sentAt, AnsweredAt: p.small.answeredAt, Octets: p.passedFull,
	}
	if p.full.sentAt.After(s.CheckedAt) {
		s.CheckedAt = p.full.sentAt
	}
	switch s.Outcome {
	case Lost:
		s.Since, s.Octets = p.small.lostSince, p.small.octets
	case LargeLost:
		s.Since, s.Octets = p.full.lostSince, p.full.octets
	}
	s.Towards = !s.Since.IsZero() && !p.isSilent(now)
	return s
}

// States are those of all paths that are watched, in the order of their EID-Prefixes.
func (w *Watch) States(now time.Time) (list []State) {
	for _, p := range w.paths {
		if p.isWatched(now) {
			list = append(list, p.state(now))
		}
	}
	slices.SortFunc(list, func(a, b State) int { return a.EIDPrefix.Compare(b.EIDPrefix) })
	return list
}

// Changes are the paths that were lost, or came back, since the last call, in the order of their EID-Prefixes. A path
// of which nothing is known any more has not come back.
func (w *Watch) Changes(now time.Time) (list []State) {
	for _, p := range w.paths {
		is := p.outcome()
		isLost, wasLost := is == Lost || is == LargeLost, p.told == Lost || p.told == LargeLost
		if is != p.told && (isLost || wasLost && is == Passes) {
			list = append(list, p.state(now))
		}
		p.told = is
	}
	slices.SortFunc(list, func(a, b State) int { return a.EIDPrefix.Compare(b.EIDPrefix) })
	return list
}

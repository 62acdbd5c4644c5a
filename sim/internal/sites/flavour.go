// SPDX-License-Identifier: Apache-2.0

package sites

// What sets seeds apart.

import (
	"time"

	"loci/control"
	"loci/sim/internal/network"
	"loci/sim/internal/virtual"
)

// Flavour is what sets seeds apart.
type Flavour struct {
	Families  families
	resolvers bool // Map-Resolvers of their own, not beside the Map-Servers
	Overlaps  bool // sites within the EID-Prefixes of other sites
	Tight     bool // small tables: eviction and refusal happen
	network   network.Conditions
	Skew      time.Duration
	FaultGap  time.Duration // mean time between faults
	AttackGap time.Duration // mean time between an attacker's messages
	probing   control.ProbingConfig
	idle      time.Duration // how long unused mappings are kept
	Gleaning  bool          // RFC 9300 s.9

	Siblings   bool // sites whose tunnel routers are siblings
	statusBits bool // data packets carry Locator-Status-Bits (RFC 9300 s.10)
	Versions   bool // and Map-Versions (RFC 9302)
	Wide       bool // sites with many EID-Prefixes
	strange    bool // sites with an EID-Prefix of no site
	Outage     bool // all Map-Servers may be away for long

	RefusesWhole bool // a Map-Server drops Map-Registers with an EID-Prefix of no site
	Relays       bool // there are relays, and sites that use them
	behind       bool // some sites send everything to RTRs
	ControlCut   bool // at the end control messages are lost, and nothing else
}

// families says which addresses RLOCs have.
type families struct{ V4, v6 bool }

const (
	// gleaningShare is in how many seeds mappings are gleaned.
	gleaningShare = 0.25
	// gleanStream is a stream of chance of its own: seeds without gleaning stay what they are.
	gleanStream = 3
)

// probings are those that runs choose from: most probe seldom, one as often as by
// default, which costs more messages than all the rest.
func probings() []control.ProbingConfig {
	off, minute := control.ProbingConfig{Off: true}, control.ProbingConfig{Interval: time.Minute}
	return []control.ProbingConfig{off, off, off, minute, minute, minute, {Interval: 30 * time.Second}, {}}
}

// DrawFlavour says what sets this run apart.
func (p *Plan) DrawFlavour() {
	r := p.Random
	f := Flavour{Families: virtual.Pick(r, []families{{V4: true}, {v6: true}, {true, true}, {true, true}})}
	f.resolvers = r.Chance(0.5)
	f.Overlaps = r.Chance(0.4)
	f.Tight = r.Chance(0.125)
	maxDelay := virtual.Pick(r, []time.Duration{5, 20, 60, 150}) * time.Millisecond
	f.FaultGap = virtual.Pick(r, []time.Duration{8, 20, 45}) * time.Second
	f.AttackGap = virtual.Pick(r, []time.Duration{300, 1500, 6000}) * time.Millisecond
	f.probing = virtual.Pick(r, probings())
	f.idle = virtual.Pick(r, []time.Duration{0, 30 * time.Second, 90 * time.Second})
	f.Skew = virtual.Pick(r, []time.Duration{0, time.Second, 10 * time.Minute})
	f.network = network.Conditions{
		MaxDelay: maxDelay, Duplicate: virtual.Pick(r, []float64{0, 0.01, 0.1}), Reorder: virtual.Pick(r, []float64{0, 0.02, 0.2}),
	}
	f.network.Jitter = virtual.Pick(r, []time.Duration{0, 1, 10}) * time.Millisecond
	if !p.Options.Calm {
		f.network.Loss = virtual.Pick(r, []float64{0, 0.01, 0.05, 0.2})
	}
	p.Flavour, p.Network.Conditions = f, f.network
	p.drawGleaning()
	p.drawKinds()
}

// drawGleaning says whether the tunnel routers of this run glean.
func (p *Plan) drawGleaning() {
	p.Gleans = virtual.NewRandom(p.Options.Seed, gleanStream)
	p.Flavour.Gleaning = p.Gleans.Chance(gleaningShare)
}

// SPDX-License-Identifier: Apache-2.0

package answers

// What is told of the data paths to other sites' routers (package datapath): by `loci show locators`, `loci explain`,
// `loci status`.

import (
	"slices"

	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/health"
	"loci/lisp"
)

// dataPathStates are those of the paths that are checked.
func (a *Answers) dataPathStates() []datapath.State {
	if a.DataPaths == nil {
		return nil
	}
	return a.DataPaths.States()
}

// addLostDataPaths adds the paths that are lost, and whether there are more.
func (a *Answers) addLostDataPaths(f *health.Facts) {
	for _, s := range a.dataPathStates() {
		switch {
		case s.Outcome != datapath.Lost && s.Outcome != datapath.LargeLost:
		case len(f.DataPaths) == healthListed:
			f.MoreDataPaths++
		default:
			f.DataPaths = append(f.DataPaths, health.DataPath{
				EIDPrefix: s.EIDPrefix, RLOC: s.Peer(), Large: s.Outcome == datapath.LargeLost, Since: s.Since, Octets: s.Octets, Towards: s.Towards,
			})
		}
	}
}

// explainDataPath says what the checks of a mapping's data path tell.
func (x *explainer) explainDataPath() {
	for _, s := range x.dataPaths {
		taken := func(l api.ExplainedLocator) bool {
			return l.Used && slices.ContainsFunc(s.Locators, func(p lisp.Path) bool { return p.String() == l.Name() || p.RLOC == l.RLOC && p.IsPlain() })
		}
		if s.EIDPrefix.EID().Addr().Is4() != x.query.EID.Addr().Is4() || !slices.ContainsFunc(x.answer.Locators, taken) {
			continue
		}
		switch s.Outcome {
		case datapath.Lost:
			x.say("but its router, %s, answers no echo request through the data plane for %s, and answers RLOC-probes: packets are lost on the way", s.Peer(), age(x.now, s.Since))
		case datapath.LargeLost:
			x.say("but packets of %d octets are lost on the way to %s for %s, and smaller ones pass", s.Octets, s.Peer(), age(x.now, s.Since))
		case datapath.Passes:
			x.say("its router, %s, answered an echo request through the data plane %s ago", s.Peer(), age(x.now, s.AnsweredAt))
		default:
			x.say("whether packets reach %s by the data plane is not known: it answers no echo request whose TTL ends there", s.Peer())
		}
	}
}

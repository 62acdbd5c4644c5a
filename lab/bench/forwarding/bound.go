// SPDX-License-Identifier: Apache-2.0

// `loci bench bound`: packets per second of flows that are bound to a path, beside the same mapping without bindings.

package forwarding

import (
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// Bound is the bench of flows that are bound.
func Bound() testbed.Bench {
	k := (&forwardingState{bursts: testbed.Lossless{}}).bench()
	k.Name, k.Title = "bound",
		"lossless packets per second of flows that are bound to a path, 64-octet packets, one core"
	k.Arms = []testbed.Arm{testbed.LociTCTwo, testbed.LociTCBound, testbed.LociXDPTwo, testbed.LociXDPBound}
	k.Judge = judgeBound
	return k
}

func judgeBound(r *report.Report) {
	for bound, without := range map[string]string{testbed.ArmTCBound: testbed.ArmTCTwo, testbed.ArmXDPBound: testbed.ArmXDPTwo} {
		r.Compare("rate", bound, without)
		r.WantRatio("rate", bound, without, report.AtLeast(0.95))
	}
}

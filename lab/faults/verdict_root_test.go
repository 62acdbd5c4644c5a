// SPDX-License-Identifier: Apache-2.0

package faults

// What daemons tell of the faults that they have to tell of, on the real kernel. It takes minutes: LOCI_FAULT_VERDICTS turns it on.

import (
	"os"
	"testing"
	"time"

	"loci/config"
)

func TestVerdictsOfFaults(t *testing.T) {
	if os.Getenv("LOCI_FAULT_VERDICTS") == "" {
		t.Skip("set LOCI_FAULT_VERDICTS; it takes ten minutes")
	}
	r := newRun(t)
	r.options.Engine = config.EngineKernel
	sleep(t.Context(), 20*time.Second) // the first checks of the data path have to be answered
	for _, k := range verdictKinds(r.network.plan) {
		for _, target := range k.targets {
			must(t, r.judgeVerdict(t.Context(), &fault{kind: k, target: target}, verdictFault))
		}
	}
	for _, v := range r.report.Verdicts {
		if v.failed() {
			t.Errorf("%+v", v)
		}
	}
}

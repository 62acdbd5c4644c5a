// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
)

func TestRouteAnswers(t *testing.T) {
	for want, s := range map[string]abi.Step{
		"next hop known by lo":               {B: 1},
		"too big for the path, MTU 1400":     {A: 8, C: 1400, B: 1},
		"the kernel refuses: no such device": {A: ^uint32(unix.ENODEV) + 1, B: 1},
		"answer 99":                          {A: 99},
	} {
		if got := routeAnswer(&s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

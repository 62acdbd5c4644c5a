// SPDX-License-Identifier: Apache-2.0

// Locators with a source port, between real hosts. The test needs root.

package kernel

import (
	"testing"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// TestTCPFromASourcePort: TCP with GSO, which no single outer checksum is right for, goes by locators with a source
// port, and an ICMP error about what left from that port is believed: the path becomes smaller on the way.
func TestTCPFromASourcePort(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[1], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n, _ := newRoutedNetwork(t, 1400)
			for i, r := range n.routers {
				operations := mappingOf(1-i, p.outer)
				for j, operation := range operations {
					if put, is := operation.(dataplane.PutMapping); is {
						put.Entry.Mapping.Locators = fromPort(put.Entry.Mapping.Locators, forward.DataPort)
						operations[j] = put
					}
				}
				r.apply(t, operations...)
			}
			n.expectTCP(t, p, 8<<20)
			rloc := lisp.RLOCFromAddr(p.outer(1))
			if octets, learnt := n.routers[0].PathMTU(rloc); octets != 1400 || !learnt {
				t.Errorf("the path is known to carry %d octets, learnt %v", octets, learnt)
			}
			if c := n.routers[0].Counters(); c.Other["segmented"] == 0 || c.Other["outer_checksummed"] != 0 {
				t.Errorf("%d GSO packets were cut, %d packets were sent by user space;%s",
					c.Other["segmented"], c.Other["outer_checksummed"], n.report())
			}
		})
	}
}

// fromPort is a locator-set whose packets leave from a port.
func fromPort(set lisp.LocatorSet, port uint16) lisp.LocatorSet {
	ported := append(lisp.LocatorSet(nil), set...)
	for i := range ported {
		ported[i].SourcePort = port
	}
	return ported
}

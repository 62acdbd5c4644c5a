// SPDX-License-Identifier: Apache-2.0

// Locators with a source port, between real hosts. The test needs root.

package kernel

import (
	"testing"

	"loci/dataplane"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// TestTCPFromASourcePort: TCP with GSO, which no single outer checksum is right for, goes by locators with a source
// port, and an ICMP error about what left from that port is believed: the path becomes smaller on the way. The kernel
// cuts GSO packets, also while no process has the engine open; without the interfaces for that, user space does.
func TestTCPFromASourcePort(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[1], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n, _ := newRoutedNetwork(t, 1400)
			n.mapFromPort(t, p)
			n.expectTCP(t, p, 8<<20)
			rloc := lisp.RLOCFromAddr(p.outer(1))
			if octets, learnt := n.routers[0].PathMTU(rloc); octets != 1400 || !learnt {
				t.Errorf("the path is known to carry %d octets, learnt %v", octets, learnt)
			}
			if c := n.routers[0].Counters(); c.Other["segmented"] == 0 || c.Other["outer_checksummed"] != 0 {
				t.Errorf("%d GSO packets were cut, %d packets were sent by user space;%s",
					c.Other["segmented"], c.Other["outer_checksummed"], n.report())
			}
			if c := n.routers[0].Counters(); c.Other["put_aside"] > c.Other["segmented"]/2 {
				t.Errorf("%d packets went to user space, of %d that were cut", c.Other["put_aside"], c.Other["segmented"])
			}
			n.expectCutsWithoutSegmenter(t, p)
			for _, r := range n.routers {
				must(t, r.Close())
			}
			n.expectTCP(t, p, 8<<20)
		})
	}
}

// mapFromPort maps both sites to each other, by locators with a source port.
func (n *network) mapFromPort(t *testing.T, p pair) {
	t.Helper()
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
}

// expectCutsWithoutSegmenter deletes the interfaces of router A, sees user space cut, and has them back by a restart.
func (n *network) expectCutsWithoutSegmenter(t *testing.T, p pair) {
	t.Helper()
	a := n.routers[0]
	before := a.Counters().Other["put_aside"]
	handle := a.ns.Netlink()
	link, err := handle.LinkByName(tap.DefaultName + "-gso")
	must(t, err)
	must(t, handle.LinkDel(link))
	n.expectTCP(t, p, 8<<20)
	if after := a.Counters().Other["put_aside"]; after == before {
		t.Errorf("no packet went to user space without the interfaces;%s", n.report())
	}
	must(t, a.Close())
	a.open(t, Options{})
	if _, err := handle.LinkByName(tap.DefaultName + "-gso"); err != nil {
		t.Errorf("after a restart: %v", err)
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

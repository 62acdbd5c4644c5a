// SPDX-License-Identifier: Apache-2.0

// Locators with a source port, between real hosts. The test needs root.

package kernel

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// TestTCPFromASourcePort: TCP with GSO, which no single outer checksum is right for, goes by locators with a source
// port, and an ICMP error about what left from that port is believed: the path becomes smaller on the way. The kernel
// cuts GSO packets, also while no process has the engine open, and after the interfaces for that were taken away.
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
				t.Errorf("%d packets went to user space, of %d that were cut", c.Other["put_aside"],
					c.Other["segmented"])
			}
			n.expectSegmenterAgain(t, p)
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

// expectSegmenterAgain deletes the interfaces of router A, sets them down, and sees TCP go on, cut by them again.
func (n *network) expectSegmenterAgain(t *testing.T, p pair) {
	t.Helper()
	handle := n.routers[0].ns.Netlink()
	for name, harm := range map[string]func(netlink.Link) error{"deleted": handle.LinkDel, "down": handle.LinkSetDown} {
		link, err := handle.LinkByName(tap.DefaultName + "-gso")
		must(t, err)
		must(t, harm(link))
		n.expectTCP(t, p, 8<<20)
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			again, err := handle.LinkByName(tap.DefaultName + "-gso")
			if err == nil && again.Attrs().OperState == netlink.OperUp {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the interface is not back: %v", name, err)
			}
		}
	}
	before := n.routers[0].Counters().Other
	n.expectTCP(t, p, 8<<20)
	if after := n.routers[0].Counters().Other; after["segmented"] == before["segmented"] ||
		after["put_aside"] > before["put_aside"] {
		t.Errorf("%d GSO packets were cut, and %d packets went to user space;%s",
			after["segmented"]-before["segmented"], after["put_aside"]-before["put_aside"], n.report())
	}
}

// TestTCPFromASourcePortWithoutSegmenter: the name of the TAP leaves no room for those of the interfaces that cut, and
// user space does.
func TestTCPFromASourcePortWithoutSegmenter(t *testing.T) {
	t.Parallel()
	n, _ := newRoutedNetwork(t, 1500)
	for i, r := range n.routers {
		must(t, r.Detach(t.Context()))
		r.open(t, Options{TAP: "loci0-long-name"})
		r.apply(t, siteOperations(i)...)
	}
	n.mapFromPort(t, pairs[0])
	n.expectTCP(t, pairs[0], 8<<20)
	if c := n.routers[0].Counters(); c.Other["put_aside"] == 0 {
		t.Errorf("no packet went to user space;%s", n.report())
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

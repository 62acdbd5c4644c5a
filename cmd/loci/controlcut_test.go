// SPDX-License-Identifier: Apache-2.0

package main_test

// Control messages are dropped in the core, and data packets pass: a site with two routers keeps its packets where
// both are deaf, and gives them to the one that hears, with its mappings, where one is.

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/wire"
)

func TestDroppedControlMessagesStopNoTraffic(t *testing.T) { overEach(t, droppedControlMessages) }

func droppedControlMessages(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.runSiblings(over, false)
	n.awaitLocatorUp("xtr1", over.remote)
	pings := n.startPinging()
	n.must(n.at["core"].DropForwarded("control", testnet.Drop{Port: wire.ControlPort}))
	n.await("xtr1 hears nothing, and xtr3 neither", func(ctx context.Context) bool {
		s, err := n.client("xtr1").Siblings(ctx)
		return err == nil && s.UnansweredSince != nil && s.Siblings[0].CoreAskedAt != nil && !s.Siblings[0].CoreAnswers
	})
	n.awaitProblem("xtr1", "core-unanswered", "core")
	if out, _ := n.loci("xtr1", "show", "siblings", "--socket", n.socket("xtr1")); !strings.Contains(out, "does not answer it") || !strings.Contains(out, "keeps its packets") {
		t.Errorf("loci show siblings:\n%s", out)
	}
	time.Sleep(3 * time.Second) // several intervals
	for _, name := range []string{"xtr1", "xtr3"} {
		if to := n.forwardingSibling(t.Context(), name); to != "" {
			t.Errorf("%s gives its packets to %s, which is as deaf", name, to)
		}
	}
	n.must(n.at["core"].PassForwarded("control"))
	n.awaitLocatorUp("xtr1", over.remote)
	n.await("the problem is over", func(context.Context) bool {
		h, _ := n.status("xtr1")
		return !slices.ContainsFunc(h.Problems, func(p api.HealthProblem) bool { return p.Kind == "core-unanswered" })
	})
	pings.end("control messages dropped everywhere")

	pings = n.startPinging()
	n.must(n.at["isp1"].DropForwarded("control", testnet.Drop{Port: wire.ControlPort}))
	n.await("xtr1 gives its packets to the sibling that hears", func(ctx context.Context) bool {
		return n.forwardingSibling(ctx, "xtr1") == first(over.sibling3)
	})
	if n.counter("xtr1", "sibling_mapping_given_total") == 0 {
		t.Error("it gave it no mapping")
	}
	n.must(n.at["isp1"].PassForwarded("control"))
	n.await("xtr1 works again", func(ctx context.Context) bool { return n.forwardingSibling(ctx, "xtr1") == "" })
	pings.end("control messages dropped at one provider")
}

// TestSplitDeafRouterGivesToTheSiblingThatAnswers, with a process for each plane, and not to the first of its
// configuration.
func TestSplitDeafRouterGivesToTheSiblingThatAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	n, over := newSiblingNetwork(t), coreFamilies[1]
	const absent = "siblings: [{addresses: ['fd00:1::99', 10.1.0.99]}, "
	n.runSiblingsWith(strings.Replace(n.siblingXTR(1, over), "siblings: [", absent, 1), over, true)
	n.awaitPing("host1", testSite{1}.host6(), testSite{2}.host6())
	n.awaitLocatorUp("xtr1", over.remote)
	pings := n.startPingingBoth()
	before := n.encapsulated("xtr3")
	n.must(n.at["isp1"].DropForwarded("control", testnet.Drop{Port: wire.ControlPort}))
	n.await("xtr1 gives its packets to xtr3", func(ctx context.Context) bool {
		return n.forwardingSibling(ctx, "xtr1") == first(over.sibling3)
	})
	n.await("xtr3 forwards them", func(context.Context) bool { return n.encapsulated("xtr3") > before+20 })
	if n.counter("xtr1", "sibling_mapping_given_total") == 0 {
		t.Error("it gave it no mapping")
	}
	n.must(n.at["isp1"].PassForwarded("control"))
	n.await("xtr1 works again", func(ctx context.Context) bool { return n.forwardingSibling(ctx, "xtr1") == "" })
	pings.end("control messages dropped at the provider of a split router")
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// The control plane of a site dies, and nothing else: its kernel forwards, RLOC-probes are not answered, the registration
// expires, and the Map-Server answers that there is none. No packet may be lost while packets come from there and the
// TTLs run.

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// longTests, when it is set to 1, has what takes minutes at the intervals of every day wait for them.
const longTests = "LOCI_LONG_TESTS"

func TestDeadControlPlaneStopsNoTraffic(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, run := range map[string]func(n *lispNetwork, xtr1 string){
		"one process":   func(n *lispNetwork, xtr1 string) { n.run("xtr1", xtr1) },
		"two processes": func(n *lispNetwork, xtr1 string) { n.runSplit(xtr1) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newLISPNetwork(t)
			quick := func(text, after, setting string) string {
				if os.Getenv(longTests) == "1" {
					return text
				}
				return strings.Replace(text, after, after+setting, 1)
			}
			of := func(number int) string {
				text := quick(n.xtr(number), "map-resolvers: [172.16.9.2]", ", rloc-probing: {interval: 1s, retries: 1, retries-interval: 300ms}")
				return quick(text, "- ms-address: 172.16.9.2\n", "      registration-interval: 1s\n")
			}
			n.run("ms", quick(n.mappingSystem(), "map-server:\n", "  mapping-expiration-timeout: 4s\n"))
			run(n, of(1))
			n.run("xtr2", of(2))
			n.awaitRegistrations(4)
			n.outliveControlPlane()
			n.run("xtr2", of(2))
			n.await("its locators answer again", func(ctx context.Context) bool { return n.locator(ctx, "xtr1", testSite{2}.rloc4()).State == "up" })
			n.awaitHealthy("xtr1")
		})
	}
}

// outliveControlPlane kills xtr2's daemon while both families are pinged.
func (n *lispNetwork) outliveControlPlane() {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 3)
	n.ping("host1", one.host6(), two.host6(), 3)
	four := n.startPinging()
	six := n.startPingingBetween(one.host6(), two.host6())
	n.await("packets come from xtr2, and its locators answer", func(ctx context.Context) bool {
		l := n.locator(ctx, "xtr1", two.rloc4())
		return l.State == "up" && l.LastHeardAt != nil
	})
	n.kill("xtr2")
	limit := readyFor
	if os.Getenv(longTests) == "1" {
		limit = 10 * time.Minute
	}
	n.awaitWithin(limit, "both mappings outlive a negative Map-Reply, and the locator is unconfirmed", func(ctx context.Context) bool {
		l := n.locator(ctx, "xtr1", two.rloc4())
		return n.counter("xtr1", "mapping_kept_total") >= 2 && l.State == "unconfirmed" && l.Reason == "probes-unanswered" && l.LastHeardAt != nil
	})
	if os.Getenv(longTests) == "1" {
		time.Sleep(5 * time.Minute)
	}
	four.end("the death of a control plane, IPv4")
	six.end("the death of a control plane, IPv6")
	if p := n.awaitProblem("xtr1", "locator-unconfirmed", two.rloc4()); !strings.Contains(p.Effect, "still go to it") {
		n.t.Errorf("what it costs: %s", p.Effect)
	}
	n.await("loci status tells of a mapping that is kept", func(context.Context) bool {
		h, _ := n.status("xtr1")
		return slices.ContainsFunc(h.Problems, func(p api.HealthProblem) bool {
			return p.Kind == "mapping-kept" && (p.Subject == two.eid4() || p.Subject == two.eid6()) && p.Since != nil && p.Effect != "" && p.Remedy != ""
		})
	})
	if left := n.registrations(); len(left) != 2 {
		n.t.Errorf("%d registrations, want those of site 1 alone", len(left))
	}
	out, status := n.loci("xtr1", "explain", two.host4().String(), "--socket", n.socket("xtr1"))
	if status != 0 || !strings.Contains(out, "answers no RLOC-probe") || !strings.Contains(out, "unconfirmed") {
		n.t.Errorf("loci explain: status %d\n%s", status, out)
	}
	if out, _ := n.loci("xtr1", "show", "locators", "--socket", n.socket("xtr1")); !strings.Contains(out, "unconfirmed") {
		n.t.Errorf("loci show locators:\n%s", out)
	}
}

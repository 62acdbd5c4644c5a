// SPDX-License-Identifier: Apache-2.0

package main_test

// What loci status says of real daemons. Tests of each fault, which stand in other files, ask it as well.

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"loci/daemon/api"
)

// status runs `loci status` as text and as JSON, and compares the exit status with the verdict.
func (n *lispNetwork) status(name string) (h api.Health, text string) {
	n.t.Helper()
	out, code := n.loci(name, "status", "--json", "--socket", n.socket(name))
	if err := json.Unmarshal([]byte(out), &h); err != nil {
		n.t.Fatalf("loci status --json: status %d, %v: %s", code, err, out)
	}
	if want := map[string]int{api.VerdictHealthy: 0, api.VerdictProblems: 1}[h.Verdict]; code != want {
		n.t.Errorf("loci status of %s: exit status %d, and the verdict is %s", name, code, h.Verdict)
	}
	text, _ = n.loci(name, "status", "--socket", n.socket(name))
	return h, text
}

// awaitProblem waits until loci status has a problem, and returns it. Its time, what it costs and what to do must be there,
// and people must read the same.
func (n *lispNetwork) awaitProblem(name, kind, subject string) (found api.HealthProblem) {
	n.t.Helper()
	var h api.Health
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("loci status of %s when %s was looked for: %+v", name, kind, h.Problems)
		}
	})
	n.await("loci status of "+name+" has "+kind+" of "+subject, func(context.Context) bool {
		var text string
		h, text = n.status(name)
		for _, p := range h.Problems {
			if p.Kind == kind && p.Subject == subject && strings.Contains(text, p.What) && strings.Contains(text, p.Effect) && strings.Contains(text, p.Remedy) {
				found = p
				return true
			}
		}
		return false
	})
	if found.Since == nil || found.Effect == "" || found.Remedy == "" {
		n.t.Errorf("%s of %s is not complete: %+v", kind, subject, found)
	}
	if found.Urgency != api.UrgencyNotice && h.Verdict != api.VerdictProblems {
		n.t.Errorf("%s of %s is %s, and the verdict is %s", kind, subject, found.Urgency, h.Verdict)
	}
	return found
}

// awaitHealthy waits until loci status has nothing but notices.
func (n *lispNetwork) awaitHealthy(names ...string) {
	n.t.Helper()
	for _, name := range names {
		var text string
		n.t.Cleanup(func() {
			if n.t.Failed() {
				n.t.Logf("loci status of %s at last: %s", name, text)
			}
		})
		n.await(name+" is healthy", func(context.Context) bool {
			var h api.Health
			h, text = n.status(name)
			return h.Verdict == api.VerdictHealthy && strings.HasPrefix(text, "healthy")
		})
	}
}

// TestStatusOfALostMappingSystem: what xTRs say while it is away, what it says when it is back, and that all are healthy soon after.
func TestStatusOfALostMappingSystem(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	for number := 1; number <= 2; number++ {
		s := testSite{number}
		n.run(s.name(), strings.Replace(n.xtr(number), "- ms-address: 172.16.9.2\n", "- ms-address: 172.16.9.2\n      registration-interval: 2s\n", 1))
	}
	n.awaitRegistrations(4)
	if p := n.awaitProblem("ms", "map-server-starting", "this Map-Server"); p.Urgency != api.UrgencyNotice {
		t.Errorf("a start is %s", p.Urgency)
	}
	n.awaitHealthy("ms", "xtr1", "xtr2")
	n.kill("ms")
	if p := n.awaitProblem("xtr1", "map-server-silent", "172.16.9.2:4342"); p.Urgency != api.UrgencyWarning {
		t.Errorf("a Map-Server that was silent for seconds is %s", p.Urgency)
	}
	n.await("packets make xtr1 ask in vain", func(ctx context.Context) bool {
		n.sendDatagram("host1", testSite{2}.host4().String())
		n.sendDatagram("host1", testSite{2}.host6().String())
		s, err := n.client("xtr1").Status(ctx)
		return err == nil && s.MapResolverStates[0].State == "silent"
	})
	if p := n.awaitProblem("xtr1", "map-resolver-silent", "172.16.9.2:4342"); p.Urgency != api.UrgencyCritical {
		t.Errorf("the only Map-Resolver is silent: %s", p.Urgency)
	}
	n.start("ms")
	n.awaitRegistrations(4)
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.awaitHealthy("ms", "xtr1", "xtr2")
}

// TestStatusOfAWrongKey at both ends.
func TestStatusOfAWrongKey(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), siteKey(1), "quite-another-key", 1))
	if p := n.awaitProblem("xtr1", "map-server-silent", "172.16.9.2:4342"); p.Urgency != api.UrgencyCritical || !strings.Contains(p.Remedy, "key") {
		t.Errorf("never registered: %+v", p)
	}
	// Anybody may send a Map-Register that does not authenticate.
	if p := n.awaitProblem("ms", "registration-refused", "Map-Registers"); p.Urgency != api.UrgencyNotice || !strings.Contains(p.What, "172.16.1.2") {
		t.Errorf("an unknown sender: %+v", p)
	}
	n.awaitHealthy("ms")
}

// TestStatusOfRefusedRegistrations at the Map-Server: of an ETR that registered before, and of a record under a key that fits.
func TestStatusOfRefusedRegistrations(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), testSite{1}.eid4(), "10.1.0.0/16", 1)) // a /16 over the /24 of the site
	n.awaitRegistrations(1)
	if p := n.awaitProblem("ms", "registration-refused", "10.1.0.0/16"); p.Urgency != api.UrgencyWarning || !strings.Contains(p.What, "site1") {
		t.Errorf("an aggregate: %+v", p)
	}
	if out, status := n.loci("ms", "status", "--socket", n.socket("ms")); status == 0 || !strings.Contains(out, "10.1.0.0/16") {
		t.Errorf("loci status: %d\n%s", status, out)
	}
	n.reconfigure("xtr1", strings.Replace(n.xtr(1), siteKey(1), "quite-another-key", 1))
	if p := n.awaitProblem("ms", "registration-refused", "172.16.1.2"); p.Urgency != api.UrgencyWarning || !strings.Contains(p.Remedy, "key") {
		t.Errorf("an ETR that registered before: %+v", p)
	}
	n.reconfigure("xtr1", n.xtr(1))
	n.awaitRegistrations(2)
	n.await("the key is right again", func(context.Context) bool {
		h, _ := n.status("ms")
		return !slices.ContainsFunc(h.Problems, func(p api.HealthProblem) bool { return p.Subject == "172.16.1.2" })
	})
}

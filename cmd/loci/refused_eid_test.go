// SPDX-License-Identifier: Apache-2.0

package main_test

// An EID-Prefix that the Map-Server refuses, added to a working xTR: reload, status and log name it, all others stay
// registered past their expiry, and it is registered when the Map-Server knows its site.

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"loci/daemon/api"
)

func TestRefusedEIDIsNamed(t *testing.T) {
	n := newLISPNetwork(t)
	system := strings.Replace(n.mappingSystem(), "map-server:\n", "map-server:\n  mapping-expiration-timeout: 6s\n", 1)
	xtr := strings.Replace(n.xtr(1), "- ms-address: 172.16.9.2\n", "- ms-address: 172.16.9.2\n      registration-interval: 2s\n", 1)
	n.run("ms", system)
	n.run("xtr1", xtr)
	n.awaitRegistrations(2)

	reload := func(name, configuration string) string {
		n.must(os.WriteFile(n.file(name), []byte(configuration), 0o600))
		out, status := n.loci(name, "reload", "--socket", n.socket(name))
		if status != 0 {
			t.Fatalf("reload: status %d, %s", status, out)
		}
		return out
	}
	strange := strings.Replace(xtr, "local-eids: [", "local-eids: [{eid: 10.9.0.0/24}, {eid: 'fd00:9::/64'}, ", 1)
	refused := []string{"10.9.0.0/24", "fd00:9::/64"}
	out := reload("xtr1", strange)
	for _, eid := range refused {
		if !strings.Contains(out, "does not acknowledge "+eid) && !strings.Contains(out, "pending: Map-Server 172.16.9.2:4342") {
			t.Errorf("reload says nothing of %s:\n%s", eid, out)
		}
	}
	n.await("the status names both", func(context.Context) bool {
		text, _ := n.loci("xtr1", "show", "status", "--socket", n.socket("xtr1"))
		return strings.Contains(text, "172.16.9.2:4342 partial") && strings.Contains(text, "10.9.0.0/24 for ") && strings.Contains(text, "fd00:9::/64 for ")
	})
	var status api.Status
	n.show("xtr1", &status, "status")
	if m := status.MapServers[0]; m.State != "partial" || m.LackingCount != 2 || len(m.Lacking) != 2 || m.Lacking[0].EIDPrefix.String() != refused[0] ||
		m.Lacking[1].EIDPrefix.String() != refused[1] || m.Lacking[0].Since.IsZero() || m.EIDPrefixes != 4 {
		t.Errorf("the Map-Server is %+v", m)
	}
	n.await("the log names both", func(context.Context) bool {
		log := n.logs["xtr1"].String()
		return strings.Count(log, "level=WARN msg=eid-not-acknowledged") == 2 && regexp.MustCompile("eid-not-acknowledged.* eid_prefix=fd00:9::/64 peer=172.16.9.2:4342").MatchString(log)
	})

	for _, eid := range refused {
		if p := n.awaitProblem("xtr1", "eid-not-acknowledged", eid); p.Urgency != api.UrgencyCritical || !strings.Contains(p.What, "172.16.9.2:4342") {
			t.Errorf("%+v", p)
		}
	}

	var before []api.Registration
	n.show("ms", &before, "registrations")
	n.await("the others are registered beyond their expiry", func(ctx context.Context) bool {
		list, err := n.client("ms").Registrations(ctx)
		n.must(err)
		if len(list) != 2 {
			t.Fatalf("registrations: %+v", list)
		}
		return list[0].LastRegisteredAt.After(before[0].ExpiresAt) && list[1].LastRegisteredAt.After(before[1].ExpiresAt)
	})

	reload("ms", strings.Replace(system, "{eid: 10.1.0.0/24},", "{eid: 10.1.0.0/24}, {eid: 10.9.0.0/24}, {eid: 'fd00:9::/64'},", 1))
	n.awaitRegistrations(4)
	n.await("nothing is left to be told", func(ctx context.Context) bool {
		s, err := n.client("xtr1").Status(ctx)
		return err == nil && s.MapServers[0].State == "registered" && s.MapServers[0].LackingCount == 0
	})
	n.awaitHealthy("xtr1")
	if out := reload("xtr1", strings.Replace(strange, "registration-interval: 2s", "registration-interval: 3s", 1)); strings.Contains(out, "acknowledge") {
		t.Errorf("all is acknowledged, and reload says:\n%s", out)
	}
}

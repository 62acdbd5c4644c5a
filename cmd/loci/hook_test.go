// SPDX-License-Identifier: Apache-2.0

package main_test

// The hook of an interface, as its user sees it: configured, shown, through a crash, changed by a reload.

import (
	"os"
	"strings"
	"testing"
)

func (n *lispNetwork) xtrAtXDP(number int) string {
	return strings.Replace(n.xtr(number), "{site: [{interface: site0}], core: [core0]}",
		"{site: [{interface: site0, hook: xdp}], core: [{interface: core0, hook: xdp}]}", 1)
}

// expectHooks demands the hook of both interfaces, in words and in JSON.
func (n *lispNetwork) expectHooks(name string, words ...string) {
	n.t.Helper()
	out, status := n.loci(name, "show", "status", "--socket", n.socket(name))
	for _, word := range words {
		if status != 0 || !strings.Contains(out, word) {
			n.t.Errorf("status %d, want %q in\n%s", status, word, out)
		}
	}
}

func TestInterfacesAtXDP(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr1", n.xtrAtXDP(1))
	n.run("xtr2", n.xtr(2)) // auto: tc at these links
	one, two := testSite{1}, testSite{2}
	n.awaitPing("host1", one.host4(), two.host4())
	n.awaitPing("host2", two.host6(), one.host6())
	n.expectHooks("xtr1", "site0, Instance-ID 0, hook xdp (as configured)", "core0, Instance-ID 0, hook xdp (as configured)", "is a virtual link")
	n.expectHooks("xtr2", "hook tc (veth is a virtual link")
	n.kill("xtr1")
	if result := n.ping("host1", one.host4(), two.host4(), 3); result.Received != result.Sent {
		t.Errorf("without the daemon %d of %d packets arrive", result.Received, result.Sent)
	}
	n.start("xtr1")
	n.expectHooks("xtr1", "core0, Instance-ID 0, hook xdp (as configured)")
	n.must(os.WriteFile(n.file("xtr1"), []byte(n.xtr(1)), 0o600))
	out, status := n.loci("xtr1", "reload", "--socket", n.socket("xtr1"))
	if status != 0 || !strings.Contains(out, "interfaces.core[core0].hook: xdp -> auto") {
		t.Errorf("reload: status %d\n%s", status, out)
	}
	n.expectHooks("xtr1", "hook tc (veth is a virtual link")
	n.awaitPing("host1", one.host4(), two.host4())
}

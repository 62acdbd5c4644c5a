// SPDX-License-Identifier: Apache-2.0

package main_test

// loci datapath detach: nothing is left of a daemon that was killed, and one that runs stays;
// and the LISP interface, when somebody else removes it.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/command"
	"loci/internal/testnet"
)

func TestDetachAfterACrash(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1"))
	if status != command.StatusRefused || !strings.Contains(out, "stop the daemon") {
		t.Errorf("detach while the daemon runs: status %d, %s", status, out)
	}
	n.ping("xtr1", one.router4(), two.host4(), 3)
	shown, status := n.loci("xtr1", "show", "datapath", "--socket", n.socket("xtr1"))
	for _, want := range []string{"site_ingress", "core_egress", "Forwarding table: ", "Locator-sets: ", "mapping_counters"} {
		if status != 0 || !strings.Contains(shown, want) {
			t.Errorf("show datapath: status %d, no %q in\n%s", status, want, shown)
		}
	}
	if left := n.leftAt("xtr1"); len(left) < 4 {
		t.Errorf("while the daemon runs there are only %q: the test proves nothing", left)
	}

	n.kill("xtr1")
	n.ping("host1", one.host4(), two.host4(), 3)
	if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status != 0 || out != "" {
		t.Errorf("detach: status %d, %s", status, out)
	}
	if left := n.leftAt("xtr1"); len(left) > 0 {
		t.Errorf("left after detach: %q", left)
	}
	if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status != 0 {
		t.Errorf("detach of nothing: status %d, %s", status, out)
	}
	n.start("xtr1")
	n.ping("host1", one.host6(), two.host6(), 3)
}

// TestDeletedInterfaceComesBack deletes the LISP interface under a running daemon.
func TestDeletedInterfaceComesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("xtr1", one.router4(), two.host4(), 1)
	before := n.leftAt("xtr1")
	link, err := n.at["xtr1"].Netlink().LinkByName("loci0")
	n.must(err)
	n.must(n.at["xtr1"].Netlink().LinkDel(link))
	n.await("interface, rules and routes are back", func(context.Context) bool { return len(n.leftAt("xtr1")) == len(before) })
	// Programs may know the old interface for as long as they keep next hops.
	n.await("the router's own packets go by it", func(ctx context.Context) bool {
		p := testnet.Ping{Namespace: n.at["xtr1"], Source: one.router4(), Destination: two.host4(), Timeout: 100 * time.Millisecond}
		result, err := p.Run(ctx)
		return err == nil && result.Received == 1
	})
	n.ping("xtr1", one.router4(), two.host4(), 3)
	n.ping("host1", one.host6(), two.host6(), 3) // which waits for its mapping, at the new interface
}

// leftAt lists the traces of a data plane at a router.
func (n *lispNetwork) leftAt(name string) (left []string) {
	n.t.Helper()
	handle := n.at[name].Netlink()
	if _, err := handle.LinkByName("loci0"); err == nil {
		left = append(left, "loci0")
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := handle.RuleList(family)
		n.must(err)
		for _, rule := range rules {
			if rule.Protocol == 143 {
				left = append(left, rule.String())
			}
		}
		routes, err := handle.RouteListFiltered(family, &netlink.Route{Table: 4341}, netlink.RT_FILTER_TABLE)
		n.must(err)
		for _, route := range routes {
			left = append(left, route.String())
		}
	}
	pins := filepath.Join("/sys/fs/bpf", n.net.Name(), name)
	if _, err := os.Stat(pins); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, pins)
	}
	return left
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// tshark's opinion on the explicit locator paths that real daemons send, with RLOCs and EIDs of both families.

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loci/internal/testnet"
)

// TestTsharkReadsPathsOfDaemons: a site registers a path for each family, the ITR and the RTR ask for them, and a Map-Server answers for
// the site. In all that passes the core tshark finds no error, and each path with its hops and their bits. Shows RFC 8060 s.4.6 (8).
func TestTsharkReadsPathsOfDaemons(t *testing.T) {
	t.Parallel() // it mostly waits
	testnet.RequireProgram(t, "tshark")
	n := newRelayNetwork(t, "rtr1")
	file := filepath.Join(n.dir, "core.pcap")
	stop := n.captureCore(file, "to-ms", "to-xtr1", "to-xtr2", "to-rtr1")
	n.run("ms", n.mappingSystem())
	n.run("rtr1", n.rtr("rtr1", "10.2.0.0/24", "fd00:2::/64"))
	n.run("xtr1", n.xtr(1))
	site2 := n.xtrBehind(2, testPath{"rtr1 strict"})
	n.run("xtr2", site2)
	n.awaitRegistrations(4)
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 3) })
	n.reconfigure("xtr2", strings.Replace(site2, "- ms-address: 172.16.9.2\n", "- ms-address: 172.16.9.2\n      proxy-reply: true\n", 1))
	n.await("the Map-Server answers for the site", func(ctx context.Context) bool {
		list, err := n.client("ms").Registrations(ctx)
		return err == nil && len(list) == 4 && list[1].ProxyReply && list[3].ProxyReply
	})
	for _, eid := range []netip.Addr{testSite{2}.host4(), testSite{2}.host6()} {
		if out, status := n.loci("xtr1", "lig", eid.String(), "to", "172.16.9.2"); status != 0 {
			t.Errorf("lig %s: %s", eid, out)
		}
	}
	stop()

	if wrong := n.tshark(file, "-Y", "lisp && (_ws.malformed || _ws.expert.severity==error)"); wrong != "" {
		t.Errorf("tshark finds errors:\n%s", wrong)
	}
	seen := map[string]int{}
	for _, row := range strings.Split(n.tshark(file, "-Y", "lisp.lcaf.elp_hop", "-T", "fields", "-E", "separator=;", "-E", "aggregator= ",
		"-e", "lisp.type", "-e", "lisp.mapping.auth", "-e", "lisp.lcaf.elp_hop.ipv4", "-e", "lisp.lcaf.elp_hop.ipv6",
		"-e", "lisp.lcaf.elp_hop.flags.local", "-e", "lisp.lcaf.elp_hop.flags.probe", "-e", "lisp.lcaf_elp_hop.flags.strict"), "\n") {
		columns := strings.Split(strings.NewReplacer("True", "1", "False", "0").Replace(row), ";")
		four, six := strings.Fields(columns[2]), strings.Fields(columns[3])
		paths := (len(four) + len(six)) / 2
		if !isPathOf(four, "172.16.31.2", "172.16.2.2") || !isPathOf(six, "2001:db8:31::2", "2001:db8:2::2") ||
			columns[4] != repeated("0 0", paths) || columns[5] != repeated("0 0", paths) || columns[6] != repeated("1 0", paths) {
			t.Errorf("tshark reads %q", row)
		}
		kind := columns[0]
		if kind == "2" && columns[1] == "0" {
			kind = "2 by a proxy"
		}
		seen[kind]++
	}
	for _, kind := range []string{"2", "2 by a proxy", "3", "4"} {
		if seen[kind] < 2 {
			t.Errorf("paths in messages of type %s: %d, want some; all: %v", kind, seen[kind], seen)
		}
	}
}

// isPathOf tells whether the addresses are one path or none, or one path several times.
func isPathOf(got []string, hops ...string) bool {
	return slices.Equal(got, slices.Repeat(hops, len(got)/len(hops)))
}

func repeated(text string, times int) string {
	return strings.Join(slices.Repeat([]string{text}, times), " ")
}

// captureCore writes what comes in at links of the core to a file.
func (n *lispNetwork) captureCore(file string, links ...string) (stop func()) {
	n.t.Helper()
	pcap, err := testnet.CreatePcap(file, 16<<20)
	n.must(err)
	running, err := testnet.Capture{Namespace: n.at["core"], Links: links, IncomingOnly: true}.Start(pcap.Take)
	n.must(err)
	return func() {
		n.must(running.Stop())
		n.must(pcap.Close())
		if _, missed := running.Packets(); missed != 0 || pcap.LeftOut() != 0 {
			n.t.Errorf("%d packets missed, %d left out", missed, pcap.LeftOut())
		}
	}
}

// tshark is what it says of a capture.
func (n *lispNetwork) tshark(file string, arguments ...string) string {
	n.t.Helper()
	out, err := exec.Command("tshark", append([]string{"-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-r", file}, arguments...)...).Output()
	n.must(err)
	return strings.TrimSpace(string(out))
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// Hosts that refuse eBPF, by missing capabilities or by a seccomp filter: `auto` takes user space, and nothing but speed is another.
// Hosts whose kernel has less than others of what makes user space fast.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// withoutCapabilities runs a command that may not load programs.
var withoutCapabilities = []string{"setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-bpf,-perfmon,-sys_admin"}

// seccompFilter makes a command that runs another, some of whose system calls fail: testdata has it by that name.
func seccompFilter(t *testing.T, name string) (command []string) {
	t.Helper()
	testnet.RequireRoot(t)
	testnet.RequireProgram(t, "gcc")
	file := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("gcc", "-O2", "-o", file, "testdata/"+name+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{file}
}

// runWithoutBPF starts a daemon that may not load programs.
func (n *lispNetwork) runWithoutBPF(name string) {
	n.t.Helper()
	n.confine = withoutCapabilities
	n.start(name)
	n.confine = nil
}

// TestAutoTakesUserSpaceWithoutBPF runs the xTRs where the kernel refuses their programs, and again.
func TestAutoTakesUserSpaceWithoutBPF(t *testing.T) {
	for name, confine := range map[string][]string{"capabilities": withoutCapabilities, "seccomp filter": seccompFilter(t, "withoutbpf")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			n := newLISPNetwork(t)
			n.engine, n.confine = "auto", confine
			n.runAll()
			n.pingAll(3)
			before, err := n.at["xtr1"].Netlink().LinkByName("loci0")
			n.must(err)
			n.kill("xtr1")
			n.start("xtr1")
			if after, err := n.at["xtr1"].Netlink().LinkByName("loci0"); err != nil || after.Attrs().Index != before.Attrs().Index {
				t.Errorf("loci0 was made anew at a restart, and packets of EIDs left without encapsulation meanwhile: %v", err)
			}
			n.pingAll(3)
			n.transferBetween()
			var status api.Status
			n.show("xtr1", &status, "status")
			if status.Engine != "user" || !strings.Contains(status.EngineReason, "refuses to this process") || len(status.Missing) != 1 {
				t.Errorf("status tells of engine %q because of %q, missing %q", status.Engine, status.EngineReason, status.Missing)
			}
			n.stop("xtr1", n.daemons["xtr1"])
			if left := n.leftAt("xtr1"); len(left) > 0 {
				t.Errorf("left after detach: %q", left)
			}
		})
	}
}

// TestKernelWithoutTrains has two sites whose kernels take and give datagrams one by one.
func TestKernelWithoutTrains(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newUserPlaneNetwork(t)
	n.confine = seccompFilter(t, "withouttrains")
	n.runAll()
	n.pingAll(3)
	n.transferBetween()
	for _, option := range []string{"UDP_SEGMENT", "UDP_GRO"} {
		if log := n.logs["xtr1"].String(); !strings.Contains(log, option) {
			t.Errorf("the log says nothing of %s:\n%s", option, log)
		}
	}
}

// sameWithoutBPF are tests of what users rely on: hosts and routers, misses, TCP through changes, locators that die, header bits,
// links and providers, mapping sockets, and that nothing is left.
var sameWithoutBPF = []string{
	"TestHostsAndRoutersReachEachOther", "TestRouterThatDoesNotForward", "TestFirstPacketOfEachFlowArrives",
	"TestTCPConnectsThroughAMissWithoutRetransmission", "TestDetachLeavesNoTrace", "TestHolesGoToTheProxyETR", "TestDeadLocatorIsLeft",
	"TestTCPGoesOnThroughAnRLOCChange", "TestStatusBitReachesThePeer", "TestRLOCChangesDuringTransfer", "TestOneRouterWithTwoProviders",
	"TestMapIsControlPlaneEnough",
}

// TestNothingElseChangesWithoutBPF runs those tests with daemons whose programs the kernel refuses.
func TestNothingElseChangesWithoutBPF(t *testing.T) {
	if os.Getenv("LOCI_TEST_CONFINE") != "" {
		t.Skip("this is a test within it")
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^("+strings.Join(sameWithoutBPF, "|")+")$")
	cmd.Env = append(os.Environ(), "LOCI_TEST_ENGINE=auto", "LOCI_TEST_CONFINE="+strings.Join(seccompFilter(t, "withoutbpf"), " "))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range sameWithoutBPF {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run", name)
		}
	}
}

// TestLabInUserSpaceWithoutBPF: what forwards in user space alone asks for no programs.
func TestLabInUserSpaceWithoutBPF(t *testing.T) {
	filter := seccompFilter(t, "withoutbpf")
	for _, arguments := range []string{"demo", "run p4-table1 --variant ipv4-tc", "run faults --duration 1ms"} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel() // it mostly waits
			words := append(strings.Fields(arguments), "--engine", "user")
			if out, err := exec.Command(filter[0], append([]string{filepath.Join(filepath.Dir(binary), "loci-lab")}, words...)...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

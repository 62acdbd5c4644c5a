// SPDX-License-Identifier: Apache-2.0

package main_test

// What a router takes at rest, as a small one must have it free.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// restOctets is what a router that forwards in user space may take at rest, its binary included.
const restOctets = 40 << 20

// TestMemoryAtRest looks at an xTR from outside, after packets have passed.
func TestMemoryAtRest(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.engine = "user"
	n.runAll()
	n.pingAll(3)
	octets := n.resident("xtr1")
	t.Logf("the xTR has %.1f MiB of memory at rest", float64(octets)/(1<<20))
	if octets > restOctets {
		t.Errorf("the xTR has %d octets of memory at rest, more than %d: %s", octets, restOctets, n.statusOf("xtr1"))
	}
}

// resident is how much memory of a daemon is in use (VmRSS).
func (n *lispNetwork) resident(name string) (octets int) {
	n.t.Helper()
	for line := range strings.Lines(n.statusOf(name)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kibibytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			n.must(err)
			return kibibytes << 10
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}

// statusOf is what the kernel says of a daemon's process.
func (n *lispNetwork) statusOf(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.daemons[name].Process.Pid))
	n.must(err)
	return string(text)
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// A router of another processor: big-endian mips, emulated with a kernel of its own, between a site and a core of this machine.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// mipsKernel is the variable of the environment that names the kernel of the emulated machine: what `.ci/mips-kernel` prints.
const mipsKernel = "LOCI_TEST_MIPS_KERNEL"

// newEmulatedNetwork is the network of two sites whose first router is to be emulated: its links end at TAPs.
func newEmulatedNetwork(t *testing.T) (n *lispNetwork, core, site *os.File) {
	n = newEmptyNetwork(t, "core", "ms", "xtr2", "host1", "host2")
	n.engine = "user"
	n.must(n.at["core"].Forward())
	n.link("core", "to-ms", "ms", "core0", "172.16.9.1/30", "172.16.9.2/30", "2001:db8:9::1/64", "2001:db8:9::2/64")
	n.defaults("ms", "172.16.9.1", "2001:db8:9::1")
	n.buildSite(2)
	core = n.openTAP("core", "to-xtr1", "172.16.1.1/30", "2001:db8:1::1/64")
	site = n.openTAP("host1", "eth0", "10.1.0.10/24", "fd00:1::10/64")
	n.defaults("host1", "10.1.0.1", "fd00:1::1")
	return n, core, site
}

// openTAP makes the end of a link in a namespace; its other end is the file.
func (n *lispNetwork) openTAP(at, name string, addresses ...string) *os.File {
	n.t.Helper()
	file := n.openTunnel(at, name, unix.IFF_TAP|unix.IFF_VNET_HDR)
	for _, address := range addresses {
		n.must(n.at[at].AddAddress(name, netip.MustParsePrefix(address)))
	}
	n.must(n.at[at].SetUp(name, true))
	return file
}

// mipsSystem makes the file system of the emulated router.
func (n *lispNetwork) mipsSystem() (archive string) {
	n.t.Helper()
	root := filepath.Join(n.dir, "root")
	command := func(line string, environment ...string) {
		n.t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), environment...)
		if out, err := cmd.CombinedOutput(); err != nil {
			n.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	for _, name := range []string{"bin", "etc"} {
		n.must(os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	command("../../packaging/cross linux-mips", "OUT="+n.dir)
	n.must(os.Rename(filepath.Join(n.dir, "loci-linux-mips"), filepath.Join(root, "bin/loci")))
	command("go build -trimpath -ldflags '-s -w' -o "+root+"/init ./testdata/guest", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat")
	n.must(os.WriteFile(filepath.Join(root, "etc/loci.yaml"), []byte(strings.ReplaceAll(n.xtr(1), n.dir, "/run")), 0o600))
	links := "eth0 core0 172.16.1.2/30 2001:db8:1::2/64\neth1 site0 10.1.0.1/24 fd00:1::1/64\ndefault 172.16.1.1 2001:db8:1::1\n"
	n.must(os.WriteFile(filepath.Join(root, "etc/links"), []byte(links), 0o600))
	archive = filepath.Join(n.dir, "system.cpio")
	command("cd " + root + " && find . | cpio -o -H newc --quiet >" + archive)
	return archive
}

// boot starts the emulated router, with its links.
func (n *lispNetwork) boot(kernel string, core, site *os.File) {
	n.t.Helper()
	arguments := []string{"-M", "malta", "-cpu", "24Kf", "-m", "256", "-kernel", kernel, "-initrd", n.mipsSystem(),
		"-append", "console=ttyS0 panic=-1 quiet", "-nographic", "-no-reboot"}
	for i, name := range []string{"core", "site"} {
		arguments = append(arguments, "-netdev", fmt.Sprintf("tap,id=%s,fd=%d", name, 3+i), "-device",
			fmt.Sprintf("virtio-net-pci,netdev=%s,mac=52:54:00:00:00:0%d,romfile=", name, 1+i))
	}
	n.logs["xtr1"] = &logBuffer{}
	cmd := exec.Command("qemu-system-mips", arguments...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = n.logs["xtr1"], n.logs["xtr1"], []*os.File{core, site}
	n.must(cmd.Start())
	n.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// awaitGuestStatus returns what `loci show status` said in the emulated machine.
func (n *lispNetwork) awaitGuestStatus() (status api.Status) {
	n.t.Helper()
	const mark = "guest: status: "
	n.awaitWithin(2*time.Minute, "the emulated router is ready", func(context.Context) bool {
		_, text, found := strings.Cut(n.logs["xtr1"].String(), mark)
		line, _, whole := strings.Cut(text, "\n")
		return found && whole && json.Unmarshal([]byte(line), &status) == nil
	})
	return status
}

// pingLarge sends large echo requests, once one was answered: then both hosts have been told what fits the path.
func (n *lispNetwork) pingLarge(source, destination netip.Addr, octets int) {
	n.t.Helper()
	large := testnet.Ping{Namespace: n.at["host1"], Source: source, Destination: destination, Octets: octets, Timeout: time.Second}
	n.await(fmt.Sprintf("a ping of %d octets to %s is answered", octets, destination), func(ctx context.Context) bool {
		result, err := large.Run(ctx)
		return err == nil && result.Received == 1
	})
	large.Count, large.Timeout = 5, 0
	if result, err := large.Run(n.t.Context()); err != nil || result.Received != large.Count {
		n.t.Errorf("%d of %d pings of %d octets to %s were answered: %v", result.Received, large.Count, octets, destination, err)
	}
}

// TestMipsRouter has a site behind an emulated big-endian router, and one behind a router of this machine's.
func TestMipsRouter(t *testing.T) {
	kernel := os.Getenv(mipsKernel)
	if kernel == "" {
		t.Skipf("needs a kernel for mips: %s=$(.ci/mips-kernel)", mipsKernel)
	}
	testnet.RequireProgram(t, "qemu-system-mips")
	testnet.RequireProgram(t, "cpio")
	n, core, site := newEmulatedNetwork(t)
	n.run("ms", n.mappingSystem())
	n.run("xtr2", n.xtr(2))
	n.boot(kernel, core, site)
	if status := n.awaitGuestStatus(); status.Engine != "user" || len(status.Warnings) > 0 {
		t.Errorf("the emulated router says of itself %+v", status)
	}
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	for _, pair := range [][2]netip.Addr{{one.host4(), two.host4()}, {one.host6(), two.host6()}} {
		n.ping("host1", pair[0], pair[1], 1) // the first one waits for the mapping
		n.ping("host1", pair[0], pair[1], 20)
		n.ping("host2", pair[1], pair[0], 20)
		for _, octets := range []int{1400, 4000} { // the latter are fragments
			n.pingLarge(pair[0], pair[1], octets)
		}
	}
	n.ping("host2", two.host4(), one.router4(), 3)
	n.transferBetween()
}

// SPDX-License-Identifier: Apache-2.0

package main_test

// The data plane in user space without privileges: the daemon runs as a user without any capability. What takes CAP_NET_ADMIN is
// made beforehand, by the commands that the daemon names.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// ordinary is a user without rights, and the number of his group.
const ordinary = 65534

// letUserIn gives the network a directory of that user's, and him the way to the command.
func (n *lispNetwork) letUserIn() {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "loci-user-")
	n.must(err)
	n.t.Cleanup(func() { os.RemoveAll(dir) })
	n.must(os.Chown(dir, ordinary, ordinary))
	n.must(os.Chmod(filepath.Dir(binary), 0o711))
	n.dir = dir
}

// startAsUser starts a daemon as that user with a configuration and further files, and does not wait for it.
func (n *lispNetwork) startAsUser(name, configuration string, files ...*os.File) {
	n.t.Helper()
	n.must(os.WriteFile(n.file(name), []byte(configuration), 0o600))
	n.must(os.Chown(n.file(name), ordinary, ordinary))
	if n.logs[name] == nil {
		n.logs[name] = &logBuffer{}
	}
	// Where nothing else sets its mode, /dev/net/tun is root's.
	device := filepath.Join(n.dir, "tun")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))); err == nil || errors.Is(err, unix.EEXIST) {
		n.must(os.Chmod(device, 0o666))
	} else {
		n.t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$0" /dev/net/tun && exec "$@"`, device, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
		binary, "run", "--config", n.file(name), "--detach")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = n.logs[name], n.logs[name], files
	n.must(n.at[name].Start(cmd))
	n.daemons[name] = cmd
	n.t.Cleanup(func() { n.stop(name, cmd) })
}

var namedCommand = regexp.MustCompile(`(?:\(CAP_NET_ADMIN\)|dropped): ((?:ip|sysctl) [^"]*)`)

// obey runs the commands that a daemon has named since it was last asked, and returns how many.
func (n *lispNetwork) obey(name string, done map[string]bool) (count int) {
	n.t.Helper()
	for _, found := range namedCommand.FindAllStringSubmatch(n.logs[name].String(), -1) {
		for command := range strings.SplitSeq(found[1], "; ") {
			if done[command] {
				continue
			}
			done[command] = true
			count++
			cmd := exec.Command("sh", "-c", command)
			cmd.Stderr = n.logs[name]
			n.must(n.at[name].Start(cmd))
			if err := cmd.Wait(); err != nil {
				n.t.Errorf("%s: %v", command, err)
			}
		}
	}
	return count
}

// prepare starts a daemon as that user, does what it asks for, and starts it again until it asks for nothing.
func (n *lispNetwork) prepare(name, configuration string, files ...*os.File) {
	n.t.Helper()
	done := map[string]bool{}
	for range 5 {
		n.logs[name] = &logBuffer{}
		n.startAsUser(name, configuration, files...)
		cmd := n.daemons[name]
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		n.await(name+" is ready, or gives up", func(ctx context.Context) bool {
			select {
			case <-ended:
				return true
			default:
			}
			s, err := n.client(name).Status(ctx)
			return err == nil && s.Ready
		})
		delete(n.daemons, name)
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if n.obey(name, done) == 0 {
			break
		}
	}
	n.t.Logf("%s was made ready by %d commands", name, len(done))
	n.logs[name] = &logBuffer{}
	n.startAsUser(name, configuration, files...)
	n.awaitReady(name)
	var status api.Status
	n.show(name, &status, "status")
	if status.Engine != "user" || len(status.Warnings)+len(status.Missing) > 0 {
		n.t.Errorf("%s: status tells of engine %q, warnings %q, missing %q", name, status.Engine, status.Warnings, status.Missing)
	}
}

// expectNoRights fails the test unless a daemon runs as that user, without capabilities.
func (n *lispNetwork) expectNoRights(name string) {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.daemons[name].Process.Pid))
	n.must(err)
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"} {
		if !strings.Contains(string(text), want) {
			n.t.Errorf("%s does not run with %q: %s", name, want, text)
		}
	}
}

// transferBetween carries TCP from one site to the other, of both families, and checks what arrives.
func (n *lispNetwork) transferBetween() {
	n.t.Helper()
	n.bothFamilies(func(one, two netip.Addr) {
		result, err := testnet.TCP{Client: n.at["host1"], Server: n.at["host2"], Source: one, Destination: two, Octets: 4 << 20, Verify: true}.Run(n.t.Context())
		if err != nil || result.Octets == 0 {
			n.t.Errorf("TCP from %s to %s: %+v, %v", one, two, result, err)
		}
	})
}

// TestUnprivileged has TUN interfaces made beforehand for a user, and named: both sites run without any capability. They are
// there again after a restart, and stay when the daemon removes what is its own.
func TestUnprivileged(t *testing.T) {
	n := newUserPlaneNetwork(t)
	n.letUserIn()
	n.run("ms", n.mappingSystem())
	n.prepare("xtr1", n.xtr(1))
	n.prepare("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	n.pingAll(3)
	n.transferBetween()
	n.expectNoRights("xtr1")
	leaks := n.watchLeaks("xtr1")
	n.kill("xtr1")
	one, two := testSite{1}, testSite{2}
	if received := n.tryPing("host1", one.host4(), two.host4(), 2); received != 0 {
		t.Errorf("%d pings were answered without a daemon", received)
	}
	n.startAsUser("xtr1", n.xtr(1))
	n.awaitReady("xtr1")
	n.pingAll(3)
	before := n.leftAt("xtr1")
	n.stop("xtr1", n.daemons["xtr1"])
	if left := n.leftAt("xtr1"); len(left) != len(before) {
		t.Errorf("what others made is %q after a detach, was %q", left, before)
	}
	if leaks.Load() > 0 {
		t.Errorf("%d packets of EIDs left without encapsulation", leaks.Load())
	}
	if out, status := n.loci("xtr2", "datapath", "detach", "--config", n.file("xtr2")); status == 0 {
		t.Errorf("detach beside a daemon: %s", out)
	}
}

// openTUN opens a TUN as somebody else does, who hands it to the daemon.
func (n *lispNetwork) openTUN(at, name string, flags uint16) *os.File {
	n.t.Helper()
	return n.openTunnel(at, name, unix.IFF_TUN|flags)
}

func (n *lispNetwork) openTunnel(at, name string, flags uint16) *os.File {
	n.t.Helper()
	var fd int
	n.must(n.at[at].Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_NO_PI | flags)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	file := os.NewFile(uintptr(fd), name)
	n.t.Cleanup(func() { _ = file.Close() })
	return file
}

// handOver gives the descriptor of a file to each that connects to a Unix socket.
func (n *lispNetwork) handOver(path string, file *os.File) {
	n.t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	n.must(err)
	n.must(os.Chown(path, ordinary, ordinary))
	n.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			peer, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			_, _, _ = peer.WriteMsgUnix([]byte{0}, unix.UnixRights(int(file.Fd())), nil)
			_ = peer.Close()
		}
	}()
}

// TestUnprivilegedWithDescriptors gives one router two queues of a TUN as descriptors that it inherits, the other one a TUN of packets
// alone, as Android's VpnService makes it, by a Unix socket.
func TestUnprivilegedWithDescriptors(t *testing.T) {
	n := newUserPlaneNetwork(t)
	n.letUserIn()
	n.run("ms", n.mappingSystem())
	with := func(configuration, source string) string {
		return strings.Replace(configuration, "  engine: user\n", "  engine: user\n  interface: tun0\n  tun: "+source+"\n", 1)
	}
	const queue = unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE
	n.prepare("xtr1", with(n.xtr(1), "fd:3,4"), n.openTUN("xtr1", "tun0", queue), n.openTUN("xtr1", "tun0", queue))
	socket := filepath.Join(n.dir, "tun.sock")
	n.handOver(socket, n.openTUN("xtr2", "tun0", 0))
	n.prepare("xtr2", with(n.xtr(2), "unix:"+socket))
	n.awaitRegistrations(4)
	n.pingAll(3)
	n.transferBetween()
}

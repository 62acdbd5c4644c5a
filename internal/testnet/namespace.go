// SPDX-License-Identifier: Apache-2.0

// Package testnet builds networks out of Linux network namespaces, for tests, for the demo and for the laboratory:
// namespaces, links, addresses, routes and link settings, and the traffic to try them with (ping, TCP, UDP), and captures
// of it. It obeys no RFC of LISP; it is the world LISP runs in.
//
// It never runs an external program, never touches the namespace of the process that uses it, and never removes what
// another living process made.
//
// Network has a lock for its namespaces, Namespace for its processes, emulatedPath for the frames in flight and
// what becomes of them.
package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaceDirectory is where `ip netns` looks for names, so that `ip netns exec NAME …` works with ours.
const namespaceDirectory = "/run/netns"

// maxNamespaces bounds one Network: more than this is a loop gone wild, not a topology.
const maxNamespaces = 256

// networkCount tells the networks of one process apart.
var networkCount atomic.Uint64

// Network is a set of namespaces that are made and removed together.
// Its methods may be called from several goroutines.
type Network struct {
	base string

	mu         sync.Mutex
	namespaces []*Namespace
	kept       bool
}

// New starts an empty network. Names of its namespaces begin with prefix, the process id and a counter, so that two runs
// side by side, or two networks of one run, never collide. The prefix is what Sweep is later called with.
func New(prefix string) (*Network, error) {
	if prefix == "" || filepath.Base(prefix) != prefix {
		return nil, fmt.Errorf("testnet: prefix %q cannot be part of a file name", prefix)
	}
	count := networkCount.Add(1)
	return &Network{base: prefix + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(count, 10)}, nil
}

// Name returns what all names of the network's namespaces begin with.
func (n *Network) Name() string { return n.base }

// Namespace makes a network namespace with lo up, and without duplicate address detection, router solicitations and
// router advertisements for IPv6: addresses can be used at once, and a capture shows only the traffic under test.
func (n *Network) Namespace(role string) (*Namespace, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.namespaces) >= maxNamespaces {
		return nil, fmt.Errorf("testnet: more than %d namespaces in network %s", maxNamespaces, n.base)
	}
	name := n.base + "-" + role
	if filepath.Base(name) != name {
		return nil, fmt.Errorf("testnet: role %q cannot be part of a file name", role)
	}
	ns, err := createNamespace(name, role)
	if err != nil {
		return nil, fmt.Errorf("testnet: namespace %s: %w", name, err)
	}
	n.namespaces = append(n.namespaces, ns)
	return ns, nil
}

// Keep marks the network as meant to outlive the process: Close then leaves the namespaces, and Sweep does too.
// SweepKept removes them.
func (n *Network) Keep() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ns := range n.namespaces {
		if err := markKept(ns.name); err != nil {
			return err
		}
	}
	n.kept = true
	return nil
}

// Close ends the processes that were started in the network and removes its namespaces, the newest first.
// After Keep it only lets go of them.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []error
	for i := len(n.namespaces) - 1; i >= 0; i-- {
		ns := n.namespaces[i]
		if n.kept {
			all = append(all, ns.release())
			continue
		}
		all = append(all, ns.Close())
	}
	n.namespaces = nil
	return errors.Join(all...)
}

// Namespace is one network namespace. Its methods may be called from several goroutines.
type Namespace struct {
	name string
	role string
	file *os.File
	link *netlink.Handle

	mu        sync.Mutex
	processes []*os.Process
	closed    bool
}

// Name is the name under which `ip netns` knows the namespace.
func (ns *Namespace) Name() string { return ns.name }

// Role is the part of the name that the caller chose.
func (ns *Namespace) Role() string { return ns.role }

// Path is the file that stands for the namespace, as setns and `nsenter --net=` take it.
func (ns *Namespace) Path() string { return filepath.Join(namespaceDirectory, ns.name) }

// Netlink returns a netlink handle inside the namespace. It stays valid until Close.
func (ns *Namespace) Netlink() *netlink.Handle { return ns.link }

// Do runs f on an operating system thread that is in the namespace and returns f's error. Sockets that f opens stay in
// the namespace, also when they are used after Do. Goroutines that f starts do NOT run in the namespace. f runs on a
// goroutine of its own: it must not call t.Fatal or t.Skip.
func (ns *Namespace) Do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		result <- ns.doOnThread(f)
	}()
	return <-result
}

// doOnThread unlocks the thread only when it is back where it came from: a goroutine that ends locked takes its thread
// with it, so no stray goroutine ever runs in the wrong namespace.
func (ns *Namespace) doOnThread(f func() error) error {
	runtime.LockOSThread()
	origin, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("testnet: remember own namespace: %w", err)
	}
	defer origin.Close()
	if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("testnet: enter namespace %s: %w", ns.name, err)
	}
	err = f()
	if unix.Setns(int(origin.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// Start starts a command inside the namespace, as cmd.Start does. The caller waits for it; Close kills it if it still
// runs.
func (ns *Namespace) Start(cmd *exec.Cmd) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return fmt.Errorf("testnet: namespace %s is closed", ns.name)
	}
	if err := ns.Do(cmd.Start); err != nil {
		return fmt.Errorf("testnet: start %s in %s: %w", cmd.Path, ns.name, err)
	}
	ns.processes = append(ns.processes, cmd.Process)
	return nil
}

// Close kills the processes started in the namespace and removes it with all its links. A second Close does nothing.
func (ns *Namespace) Close() error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return nil
	}
	ns.closed = true
	for _, process := range ns.processes {
		if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("testnet: end process %d in %s: %w", process.Pid, ns.name, err)
		}
	}
	ns.link.Close()
	closeErr := ns.file.Close()
	return errors.Join(removeNamespace(ns.name), closeErr)
}

// release lets go of the handles and leaves the namespace as it is.
func (ns *Namespace) release() error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return nil
	}
	ns.closed = true
	ns.link.Close()
	return ns.file.Close()
}

// createNamespace writes the record first: a crash between the two leaves a record without a namespace, which Sweep
// removes, and never a namespace whose creator is not known.
func createNamespace(name, role string) (*Namespace, error) {
	if err := writeRecord(name); err != nil {
		return nil, err
	}
	file, err := mountNamespace(filepath.Join(namespaceDirectory, name))
	if err != nil {
		return nil, errors.Join(err, removeNamespace(name))
	}
	link, err := netlink.NewHandleAt(netns.NsHandle(file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("netlink: %w", err), file.Close(), removeNamespace(name))
	}
	ns := &Namespace{name: name, role: role, file: file, link: link}
	if err := ns.quieten(); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

// mountNamespace makes a namespace on a thread that is thrown away afterwards, and binds it to the path.
func mountNamespace(path string) (*os.File, error) {
	if err := shareDirectory(); err != nil {
		return nil, err
	}
	target, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return nil, err
	}
	target.Close()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- unshareOnto(path)
	}()
	if err := <-result; err != nil {
		return nil, err
	}
	return os.Open(path)
}

// shareDirectory makes the directory of names a mount point whose mounts are shared, as `ip netns` does with its first name. Would it
// find ours beneath a plain directory, it put a mount over them, and no name could be removed after that.
func shareDirectory() error {
	if err := os.MkdirAll(namespaceDirectory, 0o755); err != nil {
		return err
	}
	directory, err := os.Open(namespaceDirectory)
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := unix.Flock(int(directory.Fd()), unix.LOCK_EX); err != nil { // `ip netns` takes this lock, too
		return fmt.Errorf("lock %s: %w", namespaceDirectory, err)
	}
	err = unix.Mount("", namespaceDirectory, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // EINVAL: no mount point yet
		return err
	}
	if err := unix.Mount(namespaceDirectory, namespaceDirectory, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make a mount point of %s: %w", namespaceDirectory, err)
	}
	return unix.Mount("", namespaceDirectory, "none", unix.MS_SHARED|unix.MS_REC, "")
}

func unshareOnto(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind to %s: %w", path, err)
	}
	return nil
}

// quieten brings lo up and keeps IPv6 from talking by itself.
func (ns *Namespace) quieten() error {
	quiet := []Sysctl{
		{"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.router_solicitations", "0"},
		{"net.ipv6.conf.default.accept_ra", "0"},
	}
	for _, setting := range quiet {
		if err := ns.SetSysctl(setting.Name, setting.Value); err != nil {
			return err
		}
	}
	lo, err := ns.link.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	return ns.link.LinkSetUp(lo)
}

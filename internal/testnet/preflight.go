// SPDX-License-Identifier: Apache-2.0

// What a machine must have for a LISP network in namespaces with the kernel data plane, tried out before anything is made.
// What is tried lives in a nameless namespace of one thread, which ends with the thread: nothing is left behind.

package testnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The oldest kernel that is supported.
const oldestKernelMajor, oldestKernelMinor = 6, 1

// Problem is one thing that the machine lacks.
type Problem struct {
	What string `json:"what"` // what is missing, in the user's words
	Do   string `json:"do"`   // what to do about it
}

// String is both parts in one line.
func (p Problem) String() string { return p.What + ": " + p.Do }

// Preflight tries everything that is needed and returns all that is missing. It makes nothing that lasts.
func Preflight() []Problem {
	return preflight(append(fileProblems(), programFileProblems()...), scratchProblems)
}

// PreflightFor is Preflight for a network whose routers all have an engine (datapath.engine): in user space they need no programs.
func PreflightFor(engine string) []Problem {
	if engine != "user" {
		return Preflight()
	}
	return preflight(fileProblems(), func() []Problem {
		_, problems := networkProblems()
		return problems
	})
}

// preflight runs scratch on a thread that is thrown away.
func preflight(problems []Problem, scratch func() []Problem) []Problem {
	problems = append(kernelProblems(), problems...)
	if missing := MissingRights(); len(missing) > 0 {
		return append(problems, Problem{
			What: "missing rights (" + strings.Join(missing, ", ") + ")",
			Do:   "run it as root, or in a container with these capabilities; the kernel's features could not be tried without them",
		})
	}
	found := make(chan []Problem, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and its namespace with it
		found <- scratch()
	}()
	return append(problems, <-found...)
}

func kernelProblems() []Problem {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return []Problem{{What: "unknown kernel: " + err.Error(), Do: "Linux 6.1 or newer is needed"}}
	}
	release := unix.ByteSliceToString(name.Release[:])
	if !supportedRelease(release) {
		return []Problem{{What: "kernel " + release + " is too old", Do: "boot Linux 6.1 or newer"}}
	}
	return nil
}

func supportedRelease(release string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > oldestKernelMajor || (major == oldestKernelMajor && minor >= oldestKernelMinor)
}

func fileProblems() []Problem {
	var problems []Problem
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		problems = append(problems, Problem{
			What: "no /dev/net/tun",
			Do:   "load the module tun (modprobe tun), or give the container the device",
		})
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		problems = append(problems, Problem{
			What: "the kernel has no IPv6",
			Do:   "boot without ipv6.disable=1, with a kernel that has CONFIG_IPV6",
		})
	}
	return problems
}

func programFileProblems() []Problem {
	if known, err := os.ReadFile("/proc/filesystems"); err == nil && !strings.Contains(string(known), "\tbpf\n") {
		return []Problem{{
			What: "the kernel has no bpf file system",
			Do:   "use a kernel with CONFIG_BPF_SYSCALL",
		}}
	}
	return nil
}

// notes collects problems.
type notes []Problem

func (n *notes) note(err error, what, do string) {
	if err != nil {
		*n = append(*n, Problem{What: what + " (" + err.Error() + ")", Do: do})
	}
}

// networkProblems leaves the thread in a network namespace of its own, with an interface when that worked.
func networkProblems() (veth *net.Interface, problems notes) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		problems.note(err, "network namespaces cannot be made", "use a kernel with CONFIG_NET_NS, and a container that allows unshare")
		return nil, problems
	}
	problems.note(tryTAP(), "a TAP interface with offload headers cannot be made", "allow /dev/net/tun (in a container: the device 10:200)")
	veth, err := tryVeth()
	problems.note(err, "veth interfaces cannot be made", "use a kernel with CONFIG_VETH (modprobe veth)")
	return veth, problems
}

// scratchProblems also tries programs.
func scratchProblems() []Problem {
	var problems notes
	problems.note(tryBPFFileSystem(), "the bpf file system cannot be mounted", "allow mounts (CAP_SYS_ADMIN in the first user namespace)")
	veth, found := networkProblems()
	problems = append(problems, found...)
	if veth == nil {
		return problems
	}
	program, err := tryProgram()
	problems.note(err, "BPF programs cannot be loaded", "allow the bpf system call (in a container: seccomp and CAP_BPF), with CONFIG_BPF_SYSCALL")
	if err != nil {
		return problems
	}
	defer program.Close()
	problems.note(tryAttach(program, veth), "BPF programs can be attached neither by tcx nor by clsact",
		"use Linux 6.6 or newer, or a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF")
	return problems
}

// tryBPFFileSystem makes a bpf file system that is mounted nowhere.
func tryBPFFileSystem() error {
	context, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return err
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(mount)
}

func tryTAP() error {
	device, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // already told
	}
	if err != nil {
		return err
	}
	defer device.Close()
	request, err := unix.NewIfreq("preflight1")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	return unix.IoctlIfreq(int(device.Fd()), unix.TUNSETIFF, request)
}

func tryVeth() (*net.Interface, error) {
	const name = "preflight2"
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "preflight3"}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, err
	}
	return net.InterfaceByName(name)
}

func tryProgram() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "preflight", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}

func tryAttach(program *ebpf.Program, veth *net.Interface) error {
	attached, err := link.AttachTCX(link.TCXOptions{Interface: veth.Index, Program: program, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		return attached.Close()
	}
	if older := tryClsact(program, veth); older != nil {
		return errors.Join(err, older)
	}
	return nil
}

func tryClsact(program *ebpf.Program, veth *net.Interface) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: veth.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return err
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: veth.Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1,
		},
		Fd: program.FD(), Name: "preflight", DirectAction: true,
	})
}

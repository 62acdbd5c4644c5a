// SPDX-License-Identifier: Apache-2.0

// This file asks the kernel what it can do, so that a user is told everything that
// is lacking at once and by its name. It changes nothing.

package features

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
)

// Feature is something of the kernel that the engine uses.
type Feature struct {
	Name     string
	Present  bool
	Required bool   // Open fails without it
	Lost     string // what does not work without it
}

// Probe lists what the engine uses and whether it is there. Without the rights to
// load programs nearly everything is reported as not present.
func Probe() []Feature {
	mapType := func(t ebpf.MapType) bool { return features.HaveMapType(t) == nil }
	calls := func(f asm.BuiltinFunc) bool { return features.HaveProgramHelper(ebpf.SchedCLS, f) == nil }
	const everything = "forwarding"
	return []Feature{
		{Name: "eBPF programs at tc", Present: features.HaveProgramType(ebpf.SchedCLS) == nil, Required: true, Lost: everything},
		{Name: "BPF file system", Present: fileSystemKnown("bpf"), Required: true, Lost: everything},
		{Name: "BPF ring buffer", Present: mapType(ebpf.RingBuf), Required: true, Lost: everything},
		{Name: "BPF array of maps", Present: mapType(ebpf.ArrayOfMaps), Required: true, Lost: everything},
		{Name: "bpf_skb_adjust_room", Present: calls(asm.FnSkbAdjustRoom), Required: true, Lost: everything},
		{Name: "bpf_fib_lookup", Present: calls(asm.FnFibLookup), Required: true, Lost: everything},
		{Name: "bpf_redirect_neigh", Present: calls(asm.FnRedirectNeigh), Required: true, Lost: everything},
		{Name: "TUN/TAP", Present: fileOpens("/dev/net/tun"), Required: true, Lost: everything},
		{Name: "tcx links", Present: HaveTCX(), Lost: "programs are attached as clsact filters, which others can remove"},
		{Name: "BPF_F_ADJ_ROOM_DECAP_L3", Present: HaveDecapFlags(), Lost: "decapsulation to the other family costs a further copy of headers"},
	}
}

// ErrKernel says that the kernel lacks something, or lets this process not use it.
var ErrKernel = errors.New("the kernel lacks, or refuses to this process")

// Missing names everything required that is not there, nil when nothing.
func Missing() error {
	var names []string
	for _, f := range Probe() {
		if f.Required && !f.Present {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrKernel, strings.Join(names, ", "))
}

func fileSystemKnown(name string) bool {
	list, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[len(fields)-1] == name {
			return true
		}
	}
	return false
}

func fileOpens(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// HaveTCX asks for the programs at the loopback interface, which kernels without
// tcx refuse.
func HaveTCX() bool {
	_, err := link.QueryPrograms(link.QueryOptions{Target: 1, Attach: ebpf.AttachTCXIngress})
	return err == nil
}

// HaveDecapFlags shrinks an IPv6 packet into an IPv4 packet to learn whether
// bpf_skb_adjust_room knows BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (since Linux 6.3).
func HaveDecapFlags() bool {
	const removed, byMAC, decapIPv4 = -20, 1, 1 << 7
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, removed), asm.Mov.Imm(asm.R3, byMAC), asm.Mov.Imm(asm.R4, decapIPv4),
			asm.FnSkbAdjustRoom.Call(), asm.Return(),
		},
	})
	if err != nil {
		return false
	}
	defer program.Close()
	packet := make([]byte, 14+40+40)
	packet[12], packet[13], packet[14] = 0x86, 0xDD, 0x60
	answer, err := program.Run(&ebpf.RunOptions{Data: packet, DataOut: make([]byte, 256)})
	return err == nil && answer == 0
}

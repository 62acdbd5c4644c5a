// SPDX-License-Identifier: Apache-2.0

// This file finds out through which interfaces packets may take the shortcut of
// bpf_redirect_peer: into the other end of a veth at once, not through a queue
// (docs/decisions/0008-veth-shortcut.md). Nothing that was put at the interface
// to see, shape or change what leaves may be bypassed. It changes nothing.

package attach

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
)

const (
	attributeMaxMTU = 51    // IFLA_MAX_MTU
	vethMaxMTU      = 65535 // less while a program of XDP is at the other end
	noQueue         = "noqueue"
)

// outlet is what stands at an interface's way out.
type outlet struct {
	queue     string // name of the root queueing discipline
	maxMTU    uint32
	filters   int // of others, clsact and tcx
	segmented bool
}

// canShorten reports whether packets may go into a link's other end directly.
func canShorten(l netlink.Link, o outlet) bool {
	attrs := l.Attrs()
	return l.Type() == "veth" && attrs.NetNsID >= 0 && attrs.MasterIndex == 0 &&
		o.queue == noQueue && o.maxMTU >= vethMaxMTU && o.filters == 0 && !o.segmented
}

// outlet looks at an interface's way out.
func (l *Interfaces) outlet(device netlink.Link) (o outlet, err error) {
	index := device.Attrs().Index
	err = l.Space.Do(func() error {
		if o.queue, o.maxMTU, err = queueOf(index); err != nil {
			return err
		}
		if o.segmented, err = features.CutsSegments(device.Attrs().Name); err != nil {
			return err
		}
		o.filters, err = l.foreignEgressPrograms(index)
		return err
	})
	if err != nil {
		return outlet{}, fmt.Errorf("interface %s: %w", device.Attrs().Name, err)
	}
	return o, nil
}

// queueOf asks for what our library does not return of a link.
func queueOf(index int) (queue string, maxMTU uint32, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	about := nl.NewIfInfomsg(unix.AF_UNSPEC)
	about.Index = int32(index)
	request.AddData(about)
	answers, err := request.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil || len(answers) == 0 {
		return "", 0, fmt.Errorf("link %d: %w", index, err)
	}
	attributes, err := nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return "", 0, fmt.Errorf("link %d: %w", index, err)
	}
	for _, a := range attributes {
		switch {
		case a.Attr.Type == unix.IFLA_QDISC:
			queue = nl.BytesToString(a.Value)
		case a.Attr.Type == attributeMaxMTU && len(a.Value) == 4:
			maxMTU = nl.NativeEndian().Uint32(a.Value)
		}
	}
	return queue, maxMTU, nil
}

// foreignEgressPrograms counts programs and filters of others at egress.
func (l *Interfaces) foreignEgressPrograms(index int) (int, error) {
	foreign := 0
	result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	if err == nil {
		own := l.hooks.programIDs()
		for _, p := range result.Programs {
			if !own[p.ID] {
				foreign++
			}
		}
	}
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	filters, err := l.Space.Netlink.FilterList(device, netlink.HANDLE_MIN_EGRESS)
	if err != nil && !noSuchFilter(err) {
		return foreign, fmt.Errorf("filters: %w", err)
	}
	for _, filter := range filters {
		if b, ok := filter.(*netlink.BpfFilter); !ok || !l.hooks.filters.isOwn(b) {
			foreign++
		}
	}
	return foreign, nil
}

// findProgramIDs asks the kernel for the identifiers of our programs, which takes it a while.
func (h *hooks) findProgramIDs() map[ebpf.ProgramID]bool {
	own := map[ebpf.ProgramID]bool{}
	for _, program := range h.programs {
		if info, err := program.Info(); err == nil {
			id, _ := info.ID()
			own[id] = true
		}
	}
	return own
}

// addShortcut marks an interface whose packets may take the shortcut.
func (l *Interfaces) addShortcut(wanted map[uint32]attached, device netlink.Link) {
	index := uint32(device.Attrs().Index)
	if l.shortens(device) {
		a := wanted[index]
		a.record.Flags |= abi.InterfacePeer
		wanted[index] = a
	}
}

func (l *Interfaces) shortens(device netlink.Link) bool {
	if l.NoShortcut || device.Type() != "veth" || device.Attrs().NetNsID < 0 {
		return false
	}
	o, err := l.outlet(device)
	if err != nil {
		l.Log.Debug("no shortcut through an interface", "error", err)
		return false
	}
	return canShorten(device, o)
}

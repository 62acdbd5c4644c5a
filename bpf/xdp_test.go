// SPDX-License-Identifier: Apache-2.0

// The XDP program by itself: frames that it takes and frames that it leaves to tc.

package bpf_test

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// What XDP does with a frame.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// Members of struct xdp_md.
const (
	xdpDataEnd        = 4
	xdpIngressIfindex = 12
	xdpOctets         = 24
)

// frameXDP passes a frame to the XDP program as if it had come in at that interface.
func (b *bench) frameXDP(t testing.TB, at netlink.Link, frame []byte) (verdict uint32, got []byte) {
	t.Helper()
	return b.frameBy(t, "lisp_xdp", at, frame)
}

func (b *bench) frameBy(t testing.TB, program string, at netlink.Link, frame []byte) (verdict uint32, got []byte) {
	t.Helper()
	options := xdpOptions(at, frame)
	loaded := b.program(program)
	must(t, b.ns.Do(func() error {
		return onProcessor(0, func() (err error) { // whose caches are looked into
			verdict, err = loaded.Run(options)
			return err
		})
	}))
	return verdict, options.DataOut
}

func xdpOptions(at netlink.Link, frame []byte) *ebpf.RunOptions {
	context := make([]byte, xdpOctets)
	binary.LittleEndian.PutUint32(context[xdpDataEnd:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(context[xdpIngressIfindex:], uint32(at.Attrs().Index))
	return &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
}

// takeFrames lets both interfaces take frames.
func (b *bench) takeFrames(t testing.TB) {
	t.Helper()
	for flag, at := range map[string]netlink.Link{"LISP_INTERFACE_SITE": b.site, "LISP_INTERFACE_CORE": b.core} {
		b.update("interfaces", uint32(at.Attrs().Index), b.encode("lisp_interface", fields{
			"flags":     b.constant(flag) | b.constant("LISP_INTERFACE_TAKES_FRAMES") | b.constant("LISP_INTERFACE_CHECKSUM_PARTIAL"),
			"l2_length": etherLength, "roots": b.rootsOf(0), "mac": []byte(at.Attrs().HardwareAddr),
		}))
	}
	b.giveDevice(t, b.core)
}

// giveDevice lets frames be sent by an interface without a search; those of the site are searched for.
func (b *bench) giveDevice(t testing.TB, at netlink.Link) {
	t.Helper()
	index, m := uint32(at.Attrs().Index), b.coll.Maps["devices"]
	must(t, b.ns.Do(func() error { return m.Put(index%m.MaxEntries(), index) }))
}

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
	options := xdpOptions(at, frame)
	must(t, b.ns.Do(func() (err error) {
		verdict, err = b.coll.Programs["lisp_xdp"].Run(options)
		return err
	}))
	return verdict, options.DataOut
}

func xdpOptions(at netlink.Link, frame []byte) *ebpf.RunOptions {
	context := make([]byte, xdpOctets)
	binary.LittleEndian.PutUint32(context[xdpDataEnd:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(context[xdpIngressIfindex:], uint32(at.Attrs().Index))
	return &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
}

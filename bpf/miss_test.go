// SPDX-License-Identifier: Apache-2.0

// Misses packet by packet: the event and its limit, the policies, the metadata at the TAP, and what becomes of packets
// that are written back.

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// newBenchWithTAP adds loci0, of which only index and address matter here.
func newBenchWithTAP(t *testing.T, settings fields) (*bench, netlink.Link) {
	t.Helper()
	b := newBench(t)
	must(t, b.ns.Do(func() error {
		opened, err := openTAP("loci0")
		if err == nil {
			t.Cleanup(func() { opened.file.Close() })
		}
		return err
	}))
	// The kernel's random address may begin with a magic of metadata.
	must(t, b.ns.Netlink().LinkSetHardwareAddr(b.link(t, "loci0"), tapMAC))
	must(t, b.ns.SetUp("loci0", true))
	tap := b.link(t, "loci0")
	b.declare(t, "loci0", "LISP_INTERFACE_TAP")
	settings["tap_ifindex"], settings["tap_mac"] = uint32(tap.Attrs().Index), []byte(tap.Attrs().HardwareAddr)
	b.settings(settings)
	return b, tap
}

func (b *bench) fromHost(packet []byte) []byte {
	return ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)
}

func TestMissEvent(t *testing.T) {
	b, _ := newBenchWithTAP(t, fields{"miss_interval_ns": uint64(time.Hour)})
	events, err := ringbuf.NewReader(b.coll.Maps["events"])
	must(t, err)
	defer events.Close()
	for _, pair := range pairs[:2] {
		packet := pair.toRemote(0, 64)
		for range 3 {
			answer, got := b.toSite(t, b.fromHost(packet))
			if answer != actRedirect {
				t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
			}
			b.expectWaiting(t, got, reasonMiss, packet)
		}
		events.SetDeadline(time.Now().Add(time.Second))
		event, err := events.Read()
		must(t, err)
		kind := b.constant("LISP_EVENT_MISS")
		want := b.encode("lisp_event", fields{
			"kind": kind, "ifindex": uint32(b.site.Attrs().Index), "family": familyOf(pair.inner(0, 10)), "reason": reasonMiss,
			"source": address16(pair.inner(0, 10)), "destination": address16(pair.inner(1, 10)),
		})
		if n := len(want) - 8; !bytes.Equal(event.RawSample[:n], want[:n]) || binary.LittleEndian.Uint64(event.RawSample[n:]) == 0 {
			t.Errorf("event\n%x\nwant\n%x", event.RawSample, want)
		}
		events.SetDeadline(time.Now())
		if extra, err := events.Read(); err == nil {
			t.Errorf("a second event within the interval: %x", extra.RawSample)
		}
	}
}

// TestMissWakesWithoutTAP deletes loci0: no packet that waits there tells of a miss, so its event has to wake somebody.
func TestMissWakesWithoutTAP(t *testing.T) {
	b, tap := newBenchWithTAP(t, fields{})
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(t, err)
	defer unix.Close(poll)
	const each = unix.EPOLLIN | unix.EPOLLET // edge-triggered: an event that is there already does not wake the reader again
	must(t, unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, b.coll.Maps["events"].FD(), &unix.EpollEvent{Events: each}))
	woken := func(wait time.Duration) bool {
		n, err := unix.EpollWait(poll, make([]unix.EpollEvent, 1), int(wait.Milliseconds()))
		for errors.Is(err, unix.EINTR) {
			n, err = unix.EpollWait(poll, make([]unix.EpollEvent, 1), int(wait.Milliseconds()))
		}
		must(t, err)
		return n > 0
	}
	for _, pair := range pairs[:2] {
		b.toSite(t, b.fromHost(pair.toRemote(0, 64)))
	}
	if woken(0) {
		t.Error("packets that wait wake the reader of events")
	}
	must(t, b.ns.Netlink().LinkDel(tap))
	for _, pair := range pairs[:2] {
		b.toSite(t, b.fromHost(pair.toRemote(0, 64)))
		if !woken(10 * time.Second) {
			t.Errorf("%s: the reader of events is not woken; %s", pair.name, b.allDrops())
		}
	}
}

// expectWaiting checks a frame on its way to the TAP: only its addresses have changed.
func (b *bench) expectWaiting(t *testing.T, got []byte, reason byte, packet []byte) {
	t.Helper()
	want := b.fromHost(packet)
	copy(want, []byte{5: waitsToEncapsulate}) // no detail, Instance-ID 0
	want[6], want[7] = magicWaiting, reason
	binary.BigEndian.PutUint32(want[8:], uint32(b.site.Attrs().Index))
	if !bytes.Equal(got, want) {
		t.Errorf("at the TAP\n%x\nwant\n%x", got, want)
	}
}

func TestMissPolicy(t *testing.T) {
	for policy, want := range map[string]uint32{
		"LISP_MISS_QUEUE": actRedirect, "LISP_MISS_DROP": actShot, "LISP_MISS_FORWARD_NATIVELY": actUnspec,
	} {
		t.Run(policy, func(t *testing.T) {
			b, _ := newBenchWithTAP(t, fields{})
			b.settings(fields{"tap_ifindex": 1, "miss_policy": b.constant(policy)})
			answer, _ := b.toSite(t, b.fromHost(pairs[0].toRemote(0, 64)))
			if answer != want {
				t.Errorf("answer %d, want %d", int32(answer), int32(want))
			}
			toRLOC := ip{from: siteAddress4(0, 10), to: rloc4(0), ttl: 64, port: 9}.serialize()
			if answer, _ := b.toSite(t, b.fromHost(toRLOC)); answer != actUnspec {
				t.Errorf("to an own RLOC: answer %d, want to pass", int32(answer))
			}
		})
	}
}

func TestHold(t *testing.T) {
	b, tap := newBenchWithTAP(t, fields{})
	index := b.mapCache(0, "10.2.0.0/24", rloc4(1).String(), rloc4(0).String())
	b.setMappingFlags(index, "LISP_MAPPING_VALID", "LISP_MAPPING_HOLD")
	packet := pairs[0].toRemote(0, 64)
	_, got := b.toSite(t, b.fromHost(packet))
	b.expectWaiting(t, got, reasonHold, packet)
	got[6] = magicReleased
	answer, released := b.run(t, "lisp_ingress", tap, true, got)
	b.setMappingFlags(index, "LISP_MAPPING_VALID")
	_, direct := b.toSite(t, b.fromHost(packet))
	copy(released[14+28+1:14+28+4], direct[14+28+1:]) // nonce
	if answer != actRedirect || !bytes.Equal(released, direct) {
		t.Errorf("answer %d, released\n%x\nnot held\n%x", int32(answer), released, direct)
	}
}

// TestReleased holds what becomes of packets that are written back when they are not encapsulated.
func TestReleased(t *testing.T) {
	b, tap := newBenchWithTAP(t, fields{})
	b.negative(0, "10.3.0.0/16", "LISP_ACTION_NATIVELY_FORWARD")
	b.negative(0, "10.4.0.0/16", "LISP_ACTION_DROP")
	frameTo := func(to string, ttl uint8, origin netlink.Link) []byte {
		f := b.fromHost(ip{from: siteAddress4(0, 10), to: netip.MustParseAddr(to), ttl: ttl, port: 9}.serialize())
		f[5], f[6], f[7] = waitsToEncapsulate, magicReleased, reasonMiss
		index := uint32(4711)
		if origin != nil {
			index = uint32(origin.Attrs().Index)
		}
		binary.BigEndian.PutUint32(f[8:], index)
		return f
	}
	for name, c := range map[string]struct {
		frame  []byte
		answer uint32
		reason string
	}{
		"natively":             {frameTo("10.3.0.1", 64, b.site), actRedirect, ""},
		"dropped by action":    {frameTo("10.4.0.1", 64, b.site), actRedirect, "LISP_DROP_ACTION_DROP"}, // to the TAP: its source is told
		"mapping gone":         {frameTo("10.5.0.1", 64, b.site), actShot, "LISP_DROP_RELEASED_WITHOUT_MAPPING"},
		"origin gone":          {frameTo("10.3.0.1", 64, nil), actShot, "LISP_DROP_TAP_ORIGIN_UNKNOWN"},
		"TTL":                  {frameTo("10.3.0.1", 1, b.site), actShot, "LISP_DROP_TTL_EXPIRED"},
		"own packet, no route": {frameTo("10.3.0.1", 64, tap), actShot, "LISP_DROP_NO_NATIVE_ROUTE"},
	} {
		answer, got := b.run(t, "lisp_ingress", tap, true, c.frame)
		if answer != c.answer || (c.reason != "" && b.dropped(c.reason) != 1) {
			t.Errorf("%s: answer %d; %s", name, int32(answer), b.allDrops())
		}
		if c.answer == actRedirect && !bytes.Equal(got[12:], c.frame[12:]) {
			t.Errorf("%s: changed to %x", name, got)
		}
		if name == "natively" && !bytes.Equal(got[:12], append(slices.Clone(b.site.Attrs().HardwareAddr), make([]byte, 6)...)) {
			t.Errorf("returned to the stack from and to %x", got[:12])
		}
	}
}

// TestTransmit sends a packet of user space by the routes, as it is.
func TestTransmit(t *testing.T) {
	b, tap := newBenchWithTAP(t, fields{})
	packet := ip{from: siteAddress4(0, 1), to: siteAddress4(0, 10), ttl: 1, port: 9}.serialize()
	f := ethernet(net.HardwareAddr{0, 0, 0, 0, 0, 0}, net.HardwareAddr{magicTransmit, 0, 0, 0, 0, 0}, packet)
	answer, got := b.run(t, "lisp_ingress", tap, true, f)
	if answer != actRedirect || !bytes.Equal(got, ethernet(hostMAC, b.site.Attrs().HardwareAddr, packet)) {
		t.Errorf("answer %d, %x", int32(answer), got)
	}
}

// TestICMPErrorFromRLOC leaves the core by LISP when it is about a packet from a remote EID to one of ours.
func TestICMPErrorFromRLOC(t *testing.T) {
	b := newBench(t)
	for _, pair := range pairs {
		b.leafs = map[rootKey][]leaf{}
		b.mapCacheIn(0, pair)
		for about, want := range map[string]uint32{"our EID": actRedirect, "another": actUnspec} {
			quoted := pair.toLocal(0, 1)
			if about == "another" {
				quoted = pair.toRemote(0, 1)
			}
			from := map[bool]netip.Addr{true: rloc4(0), false: rloc6(0)}[pair.inner(0, 1).Is4()]
			errorPacket := timeExceeded(from, pair.inner(1, 10), quoted)
			frame := ethernet(peerMAC, b.core.Attrs().HardwareAddr, errorPacket)
			if answer, _ := b.run(t, "core_egress", b.core, false, frame); answer != want {
				t.Errorf("%s, about a packet to %s: answer %d; %s", pair.name, about, int32(answer), b.allDrops())
			}
		}
	}
}

func timeExceeded(from, to netip.Addr, quoted []byte) []byte {
	packet := ip{from: from, to: to, ttl: 64, payload: quoted}.serialize()
	// The UDP header of 8 octets becomes an ICMP header; its checksum does not matter here.
	if from.Is4() {
		packet[9], packet[20] = 1, 11
	} else {
		packet[6], packet[40] = 58, 3
	}
	return packet
}

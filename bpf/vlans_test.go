// SPDX-License-Identifier: Apache-2.0

// The golden packets once more with the site in a VLAN: frames from hosts have a tag, in band, and become what they are without
// one; what goes to the site gets the tag. At tc that one is beside the frame, where test runs do not show it: the
// tests of dataplane/kernel receive it.

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"loci/internal/golden"
)

const (
	goldenVLAN  = 10
	taggedIndex = 0x80000001
	tagOctets   = 4
)

// tag puts a tag into a frame.
func tag(frame []byte, ethertype, tci uint16) []byte {
	out := bytes.Clone(frame[:12])
	out = binary.BigEndian.AppendUint16(out, ethertype)
	out = binary.BigEndian.AppendUint16(out, tci)
	return append(out, frame[12:]...)
}

// untag takes the tag of the golden VLAN off, if there is one.
func (b *goldenBench) untag(frame []byte) []byte {
	if len(frame) < etherLength+tagOctets || !bytes.Equal(frame[12:16], []byte{0x81, 0, 0, goldenVLAN}) {
		return frame
	}
	return append(bytes.Clone(frame[:12]), frame[16:]...)
}

// fromSite is a frame as a host sends it.
func (b *goldenBench) fromSite(frame []byte) []byte {
	if !b.vlan {
		return frame
	}
	return tag(frame, 0x8100, 5<<13|goldenVLAN) // with a priority, which says nothing here
}

// origin is what stands for the site's interface in metadata.
func (b *goldenBench) origin() uint32 {
	if b.vlan {
		return taggedIndex
	}
	return uint32(b.site.Attrs().Index)
}

// putVLAN makes a VLAN of the site's interface the site, and the interface none.
func (b *goldenBench) putVLAN(iid uint32, flags uint32) {
	site := uint32(b.site.Attrs().Index)
	mac := []byte(b.site.Attrs().HardwareAddr)
	b.update("interfaces", site, b.encode("lisp_interface", fields{"flags": flags | b.constant("LISP_INTERFACE_TAGGED"), "l2_length": etherLength, "mac": mac}))
	b.update("interfaces", uint32(taggedIndex), b.encode("lisp_interface", fields{
		"flags": flags | b.constant("LISP_INTERFACE_SITE"), "l2_length": etherLength, "iid": iid, "roots": b.rootsOf(iid), "mac": mac, "vlan": goldenVLAN, "parent": site,
	}))
	b.empty(b.t.(*testing.T), "vlans")
	for _, tag := range []uint32{goldenVLAN, 0x80000000 | iid} {
		b.update("vlans", b.encode("lisp_vlan_key", fields{"ifindex": site, "tag": tag}), uint32(taggedIndex))
	}
}

func TestGoldenPacketsInAVLAN(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	for name, atXDP := range map[string]bool{"tc": false, "XDP": true} {
		t.Run(name, func(t *testing.T) {
			b := newGoldenBench(t, table.Router)
			b.vlan, b.xdp, b.flags = true, atXDP, []string{"LISP_INTERFACE_TAKES_FRAMES"}
			b.all(t, table)
			if atXDP && b.tagged == 0 {
				t.Error("XDP sent no frame with a tag")
			}
			t.Logf("XDP took %d frames, %d of them left with a tag", b.taken, b.tagged)
		})
	}
}

// TestOtherTags: frames that are none of the site's VLAN pass untouched.
func TestOtherTags(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	b := newGoldenBench(t, table.Router)
	b.vlan = true
	c := table.Cases[0]
	if c.Hook != "site" || c.Verdict != "encapsulate" {
		t.Fatalf("%s is no packet to encapsulate", c.Name)
	}
	b.prepare(t, &c)
	plain := ethernet(b.site.Attrs().HardwareAddr, hostMAC, c.Input)
	if answer, _ := b.toSite(t, tag(plain, 0x8100, goldenVLAN)); answer != actRedirect {
		t.Fatalf("answer %d with the VLAN's tag", int32(answer))
	}
	for name, frame := range map[string][]byte{
		"no tag": plain, "another VLAN": tag(plain, 0x8100, 11), "priority tag": tag(plain, 0x8100, 7<<13), "service tag": tag(plain, 0x88A8, goldenVLAN),
		"two tags": tag(tag(plain, 0x8100, goldenVLAN), 0x8100, goldenVLAN), "service tag and tag": tag(tag(plain, 0x8100, goldenVLAN), 0x88A8, goldenVLAN),
		"cut off": tag(plain, 0x8100, goldenVLAN)[:16],
	} {
		if name != "cut off" { // the kernel runs tc programs on no such frame
			if answer, got := b.toSite(t, frame); answer != actUnspec || !bytes.Equal(got, frame) {
				t.Errorf("%s: answer %d, frame\n%x, want\n%x", name, int32(answer), got, frame)
			}
		}
		if verdict, got := b.frameXDP(t, b.site, frame); verdict != xdpPass || !bytes.Equal(got, frame) {
			t.Errorf("%s at XDP: verdict %d, frame\n%x, want\n%x", name, verdict, got, frame)
		}
	}
	// Nor do frames without a tag go by what the caches have of the VLAN.
	b.missMostly(true)
	if answer, got := b.toSite(t, plain); answer != actUnspec || !bytes.Equal(got, plain) {
		t.Errorf("no tag, by a cache: answer %d, frame\n%x, want\n%x", int32(answer), got, plain)
	}
	if got := b.counter("LISP_COUNTER_DOUBLE_TAGGED"); got != 3 {
		t.Errorf("%d frames counted, want 3: two tags, a service tag, both", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package packettrace

import (
	"strings"
	"testing"

	"loci/forward"
)

func TestPacketFilterMakesThePacketItMeans(t *testing.T) {
	for _, words := range []string{
		"in site0 src 10.1.0.5 dst 10.2.0.9",
		"in site0 src 10.1.0.5 dst 10.2.0.9 tcp sport 1024 dport 443 ttl 3 tos 0x2e size 1500 df",
		"in site0 src 2001:db8:1::5 dst 2001:db8:2::9 udp dport 53",
		"out core0 src 2001:db8:1::5 dst 2001:db8:2::9 icmp6",
		"in site0 src 10.1.0.5 dst 10.2.0.9 icmp",
		"in core0 rloc 192.0.2.2 local 192.0.2.1 iid 7 src 10.2.0.9 dst 10.1.0.5 tcp",
		"in core0 rloc 2001:db8:ff::2 local 2001:db8:ff::1 src 10.2.0.9 dst 10.1.0.5 size 1400",
	} {
		f, err := ParsePacketFilter(strings.Fields(words))
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		packet, err := f.packet()
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if _, err := forward.ParseHeader(packet); err != nil || !f.matches(packet) {
			t.Errorf("%s: does not match its own packet %s, %v", words, packetText(packet), err)
		}
	}
}

func TestPacketFilterSelects(t *testing.T) {
	packetOf := func(words string) []byte {
		f, err := ParsePacketFilter(strings.Fields(words))
		if err != nil {
			t.Fatal(err)
		}
		packet, err := f.packet()
		if err != nil {
			t.Fatal(err)
		}
		return packet
	}
	plain := packetOf("in x src 10.1.0.5 dst 10.2.0.9 tcp sport 9 dport 80 ttl 7 tos 4 size 100")
	wrapped := packetOf("in x rloc 192.0.2.2 local 192.0.2.1 iid 7 src 10.1.0.5 dst 10.2.0.9")
	for words, want := range map[string]bool{
		"in x": true, "in x src 10.1.0.0/16": true, "in x src 10.2.0.0/16": false, "in x dst 10.2.0.9": true, "in x dst 10.2.0.8": false,
		"in x dst ::/0": false, "in x tcp": true, "in x udp": false, "in x proto 6 sport 9 dport 80": true, "in x dport 81": false,
		"in x sport 80": false, "in x ttl 7 tos 4 size 100": true, "in x ttl 8": false, "in x tos 0": false, "in x size 99": false,
		"in x rloc 192.0.2.2": false,
	} {
		f, err := ParsePacketFilter(strings.Fields(words))
		if err != nil || f.matches(plain) != want {
			t.Errorf("%s: matches %v, want %v, %v", words, !want, want, err)
		}
	}
	for words, want := range map[string]bool{
		"in x rloc 192.0.2.2 iid 7": true, "in x rloc 192.0.2.3 iid 7": false, "in x rloc 192.0.2.2": false,
		"in x local 192.0.2.1 iid 7 src 10.1.0.5": true, "in x local 192.0.2.1 iid 7 src 10.1.0.6": false, "in x udp": true,
	} {
		f, err := ParsePacketFilter(strings.Fields(words))
		if err != nil || f.matches(wrapped) != want {
			t.Errorf("%s: matches %v, want %v, %v", words, !want, want, err)
		}
	}
	var f PacketFilter
	if f.matches(nil) || f.matches([]byte{0x45}) {
		t.Error("what is no packet matches")
	}
}

func TestPacketFilterRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"in":                       "in wants a value",
		"site0":                    `"site0" is not one of its words`,
		"in x src 10.1.0.300":      "src 10.1.0.300: want an address or a prefix",
		"in x dport 65536":         "dport 65536: want a number from 0 to 65535",
		"in x ttl -1":              "ttl -1: want a number from 0 to 255",
		"in x iid 16777216":        "iid 16777216: want a number",
		"in x vlan 4095":           "vlan 4095: want a number from 0 to 4094",
		"in x rloc core0":          "rloc core0: want an address",
		"in x src ::1 dst 1.2.3.4": "of different families",
	} {
		if _, err := ParsePacketFilter(strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	for words, want := range map[string]string{
		"in x":                                          "has one address there",
		"in x src 10.1.0.0/24 dst 10.2.0.1":             "src: a packet has one address",
		"in x src 10.1.0.1 dst 10.2.0.1 size 20":        "the headers alone have 28 octets",
		"in x rloc 192.0.2.2 src 10.1.0.1 dst 10.2.0.1": "needs rloc, where it comes from, and local",
		"in x rloc 192.0.2.2 local 2001:db8::1 src 10.1.0.1 dst 10.2.0.1": "of one family",
	} {
		f, err := ParsePacketFilter(strings.Fields(words))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.packet(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
}

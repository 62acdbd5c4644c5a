// SPDX-License-Identifier: Apache-2.0

package wire

// tshark's opinion on every message in which Loci sends explicit locator paths: from one to eight hops, of either family and of both,
// with every combination of the bits L, P and S at every hop, and on what a Map-Server sends on as it came.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loci/lisp"
)

// Shows RFC 8060 s.4.6 (1), (8): paths, their bits, and the locators before and behind them stand where tshark looks for them, in
// Map-Requests, Map-Replies, Map-Registers and Map-Notifies.
func TestTsharkReadsPaths(t *testing.T) {
	tshark := findTshark(t)
	var opinions []opinion
	for hops := 1; hops <= lisp.MaxHops; hops++ {
		for _, family := range []string{"4", "6", "46"} {
			for bits := range 8 {
				m := mappingWithPath(t, pathOf(t, hops, family), bits)
				name := fmt.Sprintf("%s with bits from %03b", m.Locators[1].Path(), bits)
				opinions = append(opinions, opinionsOnPath(t, name, m, readings(m))...)
			}
		}
	}
	opinions = append(opinions, opinionsOnKeptAddresses(t)...)
	compareWithTshark(t, tshark, opinions)
}

// pathOf is a path of that many hops, of IPv4 or IPv6 addresses or of both in turn.
func pathOf(t *testing.T, hops int, family string) lisp.Path {
	t.Helper()
	var list []lisp.RLOC
	for i := range hops {
		format := "203.0.113.%d"
		if family[i%len(family)] == '6' {
			format = "2001:db8::%d"
		}
		list = append(list, rloc(t, fmt.Sprintf(format, i+1)))
	}
	path, err := lisp.NewPath(list...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// mappingWithPath has a path between two plain locators. The bits of each hop are one more than those of the hop before it.
func mappingWithPath(t *testing.T, path lisp.Path, bits int) lisp.Mapping {
	t.Helper()
	var hopBits lisp.PathBits
	for i := range path.Len() {
		lps := (bits + i) % 8
		hopBits[i] = (&PathHop{Lookup: lps&4 != 0, Probe: lps&2 != 0, Strict: lps&1 != 0}).bits()
	}
	return lisp.Mapping{
		Prefix: lisp.MustParsePrefix("10.1.0.0/24"), TTLMinutes: 77, Authoritative: true,
		Locators: lisp.LocatorSet{
			{RLOC: rloc(t, "192.0.2.1"), Priority: 3, Weight: 30, MulticastPriority: 255, Reachable: true},
			{RLOC: path.RLOC, Behind: path.Behind, Bits: hopBits, Priority: 1, Weight: 100, MulticastPriority: 254, MulticastWeight: 5, Local: true, Reachable: true},
			{RLOC: rloc(t, "2001:db8:9::1"), Priority: 2, Weight: 20, MulticastPriority: 255},
		},
	}
}

// readings are tshark's fields of such a mapping's record.
func readings(m lisp.Mapping) map[string]string {
	path, bits := m.Locators[1].Path(), m.Locators[1].Bits
	lists := map[string][]string{}
	add := func(field, value string) { lists[field] = append(lists[field], value) }
	for i, hop := range path.Hops() {
		family, number := "ipv4", "1"
		if hop.Is6() {
			family, number = "ipv6", "2"
		}
		add("lisp.lcaf.elp_hop.afi", number)
		add("lisp.lcaf.elp_hop."+family, hop.String())
		add("lisp.lcaf.elp_hop.flags.res", "0x0000")
		add("lisp.lcaf.elp_hop.flags.local", digit(bits.Has(i, lisp.HopLookup)))
		add("lisp.lcaf.elp_hop.flags.probe", digit(bits.Has(i, lisp.HopProbe)))
		add("lisp.lcaf_elp_hop.flags.strict", digit(bits.Has(i, lisp.HopStrict)))
	}
	fields := map[string]string{
		"lisp.lcaf.elp_hop.ipv4": "", "lisp.lcaf.elp_hop.ipv6": "", "lisp.lcaf.type": "10",
		"lisp.mapping.ttl": "77", "lisp.mapping.eid.ipv4": "10.1.0.0", "lisp.mapping.eid.masklen": "24", "lisp.mapping.loccnt": "3",
		"lisp.loc.afi": "1|16387|2", "lisp.loc.priority": "3|1|2", "lisp.loc.weight": "30|100|20",
		"lisp.loc.multicast_priority": "255|254|255", "lisp.loc.multicast_weight": "0|5|0",
		"lisp.loc.flags.local": "0|1|0", "lisp.loc.flags.reach": "1|1|0",
	}
	for name, values := range lists {
		fields[name] = strings.Join(values, "|")
	}
	return fields
}

func digit(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// opinionsOnPath puts a mapping into each message that has locators.
func opinionsOnPath(t *testing.T, name string, m lisp.Mapping, fields map[string]string) []opinion {
	t.Helper()
	with := func(more ...string) map[string]string {
		all := map[string]string{}
		for name, value := range fields {
			all[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	record, proxied, probed := RecordOf(m), RecordOf(m), RecordOf(m)
	proxied.Authoritative = false
	probed.Locators[1].Probed = true
	return []opinion{
		mapReply(t, "Map-Reply: "+name, m, with("lisp.type", "2", "lisp.mapping.auth", "1")),
		control(t, "Map-Reply by a proxy: "+name, &MapReply{Nonce: goldenNonce, Records: []Record{proxied}}, with("lisp.type", "2", "lisp.mapping.auth", "0")),
		control(t, "Map-Reply to a probe: "+name, &MapReply{Probe: true, Nonce: goldenNonce, Records: []Record{probed}},
			with("lisp.type", "2", "lisp.mrep.flags.probe", "1", "lisp.loc.flags.probe", "0|1|0")),
		control(t, "Map-Register: "+name, &MapRegister{WantMapNotify: true, AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, 16), Records: []Record{record}},
			with("lisp.type", "3", "lisp.mreg.flags.wmn", "1", "lisp.records", "1")),
		control(t, "Map-Notify: "+name, &MapNotify{AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, 16), Records: []Record{record}}, with("lisp.type", "4")),
		control(t, "Map-Request: "+name, &MapRequest{
			Probe: true, MapDataPresent: true, Nonce: 1, ITRRLOCs: []Address{v4Address}, Records: []RequestRecord{{MaskLen: 24, EID: IPv4{10, 2, 0, 0}}}, MapReplyRecord: &record,
		}, with("lisp.type", "1", "lisp.mreq.flags.mrp", "1")),
	}
}

// mapReply is one as an ETR sends it.
func mapReply(t *testing.T, name string, m lisp.Mapping, fields map[string]string) opinion {
	t.Helper()
	b, err := AppendMapReply(nil, &MapReply{Nonce: goldenNonce}, []lisp.Mapping{m})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return opinion{name, ControlPort, b, fields}
}

// opinionsOnKeptAddresses registers what is not a path that packets can take, beside a plain RLOC, and sends both on in a Map-Reply, the
// RLOC first (RFC 9301 s.5.5).
func opinionsOnKeptAddresses(t *testing.T) []opinion {
	t.Helper()
	nine := "4003 0000 0a00 0048" + strings.Repeat(" 0003 0001 cb007109", 9)
	var opinions []opinion
	for _, c := range []struct {
		name, address string
		fields        map[string]string
	}{
		{"a path of nine hops, one router", nine, map[string]string{
			"lisp.lcaf.elp_hop.ipv4":        strings.Join(slices.Repeat([]string{"203.0.113.9"}, 9), "|"),
			"lisp.lcaf.elp_hop.flags.probe": strings.Join(slices.Repeat([]string{"1"}, 9), "|"), "lisp.lcaf.type": "10"}},
		{"reserved bits", "4003 0000 0a00 0008 fff8 0001 cb007103", map[string]string{"lisp.lcaf.elp_hop.ipv4": "203.0.113.3", "lisp.lcaf.elp_hop.flags": "0xfff8"}},
		{"an address and a name", "4003 0000 0100 000a 0001 cb007103 0011 6100", map[string]string{"lisp.lcaf.type": "1", "lisp.lcaf.afi_list.ipv4": "203.0.113.3", "lisp.lcaf.afi_list.dn": "a"}},
	} {
		m, err := recordOfLocators(t, c.address, plain).RegistrationOf(lisp.MustParsePrefix("10.0.0.0/8"))
		if err != nil {
			t.Fatal(err)
		}
		c.fields["lisp.mapping.loccnt"], c.fields["lisp.loc.priority"], c.fields["lisp.loc.afi"] = "2", "2|1", "1|16387"
		opinions = append(opinions, mapReply(t, c.name, m, c.fields))
	}
	return opinions
}

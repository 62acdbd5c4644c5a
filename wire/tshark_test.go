// SPDX-License-Identifier: Apache-2.0

package wire

// Another reader's opinion: tshark dissects what we encode, and its fields say
// what we meant. Left out is what tshark 4.0 does not know: Map-Notify-Ack, Shared
// Extensions, authentication data of ECM and Map-Reply, the bits D, L, I, N of
// Map-Request and E, T, a of Map-Register, LCAF types 4, 6, 11, 14, 16, the P bit
// and the key ID of the data header; its Key ID is the 16-bit one of RFC 6833.

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"loci/lisp"
)

// opinion is one packet and the values that tshark shall give its fields.
type opinion struct {
	name    string
	port    uint16
	payload []byte
	fields  map[string]string // values joined by "|" when a field occurs more than once
}

func TestTsharkAgrees(t *testing.T) {
	tshark := findTshark(t)
	opinions := slices.Concat(opinionsOnRequests(t), opinionsOnReplies(t), opinionsOnRegistrations(t), opinionsOnReferralsAndInfo(t),
		opinionsOnLCAFs(t), opinionsOnData(t))
	compareWithTshark(t, tshark, opinions)
}

// compareWithTshark lets tshark read all packets, and fails the test where it complains of one or reads another value.
func compareWithTshark(t *testing.T, tshark string, opinions []opinion) {
	t.Helper()
	capture := writeCapture(t, opinions)

	complaints := run(t, tshark, "-r", capture, "-Y", "_ws.malformed || _ws.expert.severity==error || udp.checksum.status==0 || ip.checksum.status==0",
		"-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
	if complaints != "" {
		t.Errorf("tshark complains:\n%s", complaints)
	}
	names := fieldNames(opinions)
	args := []string{"-r", capture, "-T", "fields", "-E", "separator=;", "-E", "aggregator=|"}
	for _, name := range names {
		args = append(args, "-e", name)
	}
	rows := strings.Split(strings.TrimRight(run(t, tshark, args...), "\n"), "\n")
	if len(rows) != len(opinions) {
		t.Fatalf("tshark shows %d packets of %d", len(rows), len(opinions))
	}
	for i, o := range opinions {
		compareFields(t, o, names, strings.Split(rows[i], ";"))
	}
}

func findTshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("tshark is missing, and CI must not skip its opinion")
	}
	if err != nil {
		t.Skip("tshark is missing")
	}
	return path
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.String())
	}
	return string(out)
}

func fieldNames(opinions []opinion) []string {
	var names []string
	for _, o := range opinions {
		for name := range o.fields {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func compareFields(t *testing.T, o opinion, names, values []string) {
	t.Helper()
	for i, name := range names {
		want, asked := o.fields[name]
		if !asked {
			continue
		}
		// Newer versions print truths as words.
		if got := strings.NewReplacer("True", "1", "False", "0").Replace(values[i]); got != want {
			t.Errorf("%s: tshark reads %s as %q, we meant %q", o.name, name, got, want)
		}
	}
}

// writeCapture wraps the payloads in UDP and IPv4.
func writeCapture(t *testing.T, opinions []opinion) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wire.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65535, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	for _, o := range opinions {
		packet := wrap(t, o)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, 0), CaptureLength: len(packet), Length: len(packet)}
		if err := w.WritePacket(info, packet); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func wrap(t *testing.T, o opinion) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{192, 0, 2, 1}, DstIP: []byte{192, 0, 2, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: layers.UDPPort(o.port)}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ip, udp, gopacket.Payload(o.payload)); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func control(t *testing.T, name string, m Message, fields map[string]string) opinion {
	t.Helper()
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return opinion{name, ControlPort, b, fields}
}

func opinionsOnRequests(t *testing.T) []opinion {
	request := &MapRequest{
		Authoritative: true, SMR: true, SMRInvoked: true, Nonce: goldenNonce, SourceEID: IPv4{10, 1, 0, 1},
		ITRRLOCs: []Address{v4Address, v6Address}, Records: []RequestRecord{{MaskLen: 32, EID: IPv4{10, 2, 0, 1}}},
	}
	plain, err := request.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return []opinion{
		control(t, "Map-Request", request, map[string]string{
			"lisp.type": "1", "lisp.nonce": "0x0102030405060708", "lisp.irc": "1", "lisp.records": "1",
			"lisp.mreq.flags.auth": "1", "lisp.mreq.flags.mrp": "0", "lisp.mreq.flags.probe": "0", "lisp.mreq.flags.smr": "1", "lisp.mreq.flags.pitr": "0", "lisp.mreq.flags.smri": "1",
			"lisp.mreq.srceid.ipv4": "10.1.0.1", "lisp.mreq.itr_rloc_ipv4": "192.0.2.1", "lisp.mreq.itr_rloc_ipv6": "2001:db8::1",
			"lisp.mreq.record.prefix.length": "32", "lisp.mreq.record.prefix.ipv4": "10.2.0.1",
		}),
		control(t, "RLOC-probe from a PITR with its record", &MapRequest{
			Probe: true, PITR: true, MapDataPresent: true, Nonce: 1, ITRRLOCs: []Address{v4Address},
			Records: []RequestRecord{{MaskLen: 32, EID: v6Address}}, MapReplyRecord: ptr(goldenRecord()),
		}, map[string]string{
			"lisp.mreq.flags.auth": "0", "lisp.mreq.flags.mrp": "1", "lisp.mreq.flags.probe": "1", "lisp.mreq.flags.smr": "0", "lisp.mreq.flags.pitr": "1", "lisp.mreq.flags.smri": "0",
			"lisp.mreq.srceid.afi": "0", "lisp.mreq.record.prefix.ipv6": "2001:db8::1",
			"lisp.mapping.eid.ipv4": "10.1.0.0", "lisp.mapping.eid.masklen": "24", "lisp.loc.priority": "1|2",
		}),
		control(t, "ECM over IPv4", &EncapsulatedControlMessage{DDTOriginated: true, Inner: InnerPacket{
			Source: netip.MustParseAddrPort("192.0.2.1:4000"), Destination: netip.MustParseAddrPort("10.2.0.1:4342"), TTL: 17, TrafficClass: 0xc0, Message: plain,
		}}, map[string]string{
			"lisp.type": "8|1", "lisp.ecm.flags.sec": "0", "lisp.ecm.flags.ddt": "1", "ip.src": "192.0.2.1|192.0.2.1", "ip.dst": "192.0.2.2|10.2.0.1", "ip.ttl": "64|17",
			"ip.dsfield": "0x00|0xc0", "udp.srcport": "50000|4000", "udp.dstport": "4342|4342", "lisp.nonce": "0x0102030405060708",
		}),
		control(t, "ECM over IPv6", &EncapsulatedControlMessage{Inner: InnerPacket{
			Source: netip.MustParseAddrPort("[2001:db8::1]:4000"), Destination: netip.MustParseAddrPort("[2001:db8::2]:4342"), FlowLabel: 0x12345, TrafficClass: 0xc0, Message: plain,
		}}, map[string]string{
			"lisp.type": "8|1", "lisp.ecm.flags.ddt": "0", "ipv6.src": "2001:db8::1", "ipv6.dst": "2001:db8::2", "ipv6.hlim": "64", "ipv6.flow": "0x012345",
			"ipv6.tclass": "0x000000c0", "udp.dstport": "4342|4342", "lisp.nonce": "0x0102030405060708",
		}),
	}
}

func opinionsOnReplies(t *testing.T) []opinion {
	return []opinion{
		control(t, "Map-Reply", &MapReply{Probe: true, EchoNonce: true, Nonce: goldenNonce, Records: []Record{goldenRecord(), negativeRecord()}}, map[string]string{
			"lisp.type": "2", "lisp.mrep.flags.probe": "1", "lisp.mrep.flags.enlr": "1", "lisp.mrep.flags.sec": "0", "lisp.records": "2", "lisp.nonce": "0x0102030405060708",
			"lisp.mapping.ttl": "1440|15", "lisp.mapping.loccnt": "2|0", "lisp.mapping.eid.masklen": "24|8", "lisp.mapping.eid.ipv4": "10.1.0.0|11.0.0.0",
			"lisp.mapping.auth": "1|0", "lisp.mapping.act": "0|3", "lisp.mapping.ver": "291|0",
			"lisp.loc.priority": "1|2", "lisp.loc.weight": "100|50", "lisp.loc.multicast_priority": "255|1", "lisp.loc.multicast_weight": "0|10",
			"lisp.loc.flags.local": "1|0", "lisp.loc.flags.probe": "0|1", "lisp.loc.flags.reach": "1|0", "lisp.loc.afi": "1|2", "lisp.loc.locator": "192.0.2.1|2001:db8::1",
		}),
		control(t, "Map-Reply for other families", &MapReply{Records: []Record{
			{EID: v6Address, MaskLen: 128, Action: lisp.ActionDropAuthFailure},
			{EID: MAC{Octets: [6]byte{2, 0, 0, 0, 0, 1}}, MaskLen: 48},
			{EID: MAC{Octets: [6]byte{2, 0, 0, 0, 0, 2}, EUI48: true}, MaskLen: 48},
			{EID: DistinguishedName("ietf.lisp"), MaskLen: 80, Action: lisp.ActionNativelyForward},
		}}, map[string]string{
			"lisp.mapping.eid.ipv6": "2001:db8::1", "lisp.mapping.eid.mac": "02:00:00:00:00:01|02:00:00:00:00:02", "lisp.mapping.eid.dn": "ietf.lisp",
			"lisp.mapping.act": "5|0|0|1", "lisp.mapping.eid.masklen": "128|48|48|80",
		}),
	}
}

func opinionsOnRegistrations(t *testing.T) []opinion {
	register := &MapRegister{
		ProxyReply: true, Security: true, XTRIDPresent: true, WantMapNotify: true, Nonce: goldenNonce,
		AlgorithmID: AlgorithmHMACSHA1, Authentication: make([]byte, 20), Records: []Record{goldenRecord()}, XTRID: goldenXTRID, SiteID: 7,
	}
	notify := &MapNotify{
		XTRIDPresent: true, Nonce: goldenNonce, AlgorithmID: AlgorithmHMACSHA256, Authentication: make([]byte, 32),
		Records: []Record{goldenRecord()}, XTRID: goldenXTRID, SiteID: 7,
	}
	return []opinion{
		control(t, "Map-Register", register, map[string]string{
			"lisp.type": "3", "lisp.mreg.flags.pmr": "1", "lisp.mreg.flags.sec": "1", "lisp.mreg.flags.xtrid": "1", "lisp.mreg.flags.wmn": "1", "lisp.records": "1",
			"lisp.keyid": "0x0001", "lisp.authlen": "20", "lisp.nonce": "0x0102030405060708", "lisp.mapping.eid.ipv4": "10.1.0.0",
			"lisp.xtrid": "a00000000000000000000000000000af", "lisp.siteid": "0000000000000007",
		}),
		control(t, "Map-Register without flags", &MapRegister{AlgorithmID: AlgorithmHMACSHA1, Authentication: make([]byte, 20)}, map[string]string{
			"lisp.mreg.flags.pmr": "0", "lisp.mreg.flags.sec": "0", "lisp.mreg.flags.xtrid": "0", "lisp.mreg.flags.wmn": "0", "lisp.records": "0", "lisp.xtrid": "",
		}),
		control(t, "Map-Notify", notify, map[string]string{
			"lisp.type": "4", "lisp.mnot.flags.xtrid": "1", "lisp.mnot.flags.rtr": "0", "lisp.keyid": "0x0002", "lisp.authlen": "32",
			"lisp.loc.locator": "192.0.2.1|2001:db8::1", "lisp.xtrid": "a00000000000000000000000000000af", "lisp.siteid": "0000000000000007",
		}),
	}
}

func opinionsOnReferralsAndInfo(t *testing.T) []opinion {
	info := InfoRequest{Nonce: goldenNonce, AlgorithmID: AlgorithmHMACSHA1, Authentication: make([]byte, 20), TTLMinutes: 3, MaskLen: 24, EID: IPv4{10, 1, 0, 0}}
	return []opinion{
		control(t, "Map-Referral", &MapReferral{Nonce: goldenNonce, Records: []ReferralRecord{{
			TTLMinutes: 1440, EID: IPv4{10, 0, 0, 0}, MaskLen: 8, Action: ReferralMapServer, Authoritative: true, Incomplete: true, Version: 0x45,
			Referrals: []LocatorRecord{{Priority: 1, Weight: 100, Reachable: true, Address: v4Address}},
		}}}, map[string]string{
			"lisp.type": "6", "lisp.nonce": "0x0102030405060708", "lisp.mapping.ttl": "1440", "lisp.mapping.act": "1", "lisp.mapping.auth": "1",
			"lisp.referral.incomplete": "1", "lisp.referral.sigcnt": "0", "lisp.mapping.ver": "69", "lisp.mapping.eid.ipv4": "10.0.0.0", "lisp.loc.locator": "192.0.2.1",
		}),
		control(t, "Info-Request", &info, map[string]string{
			"lisp.type": "7", "lisp.info.r": "0", "lisp.info.ttl": "3", "lisp.info.prefix.masklen": "24", "lisp.info.prefix.ipv4": "10.1.0.0", "lisp.info.afi": "0",
		}),
		control(t, "Info-Reply", &InfoReply{InfoRequest: info, NAT: &NATTraversalLCAF{
			MapServerPort: 4342, ETRPort: 5000, GlobalETR: v4Address, MapServer: v4Address, PrivateETR: NoAddress{}, RTRs: []Address{v6Address},
		}}, map[string]string{
			"lisp.info.r": "1", "lisp.lcaf.type": "7", "lisp.lcaf.natt.msport": "4342", "lisp.lcaf.natt.etrport": "5000",
			"lisp.lcaf.natt.rloc.ipv4": "192.0.2.1|192.0.2.1", "lisp.lcaf.natt.rloc.ipv6": "2001:db8::1",
		}),
	}
}

func opinionsOnLCAFs(t *testing.T) []opinion {
	var opinions []opinion
	for _, c := range []struct {
		name   string
		eid    Address
		fields map[string]string
	}{
		{"AFI list", &AFIListLCAF{Addresses: []Address{v4Address, v6Address, DistinguishedName("name")}},
			map[string]string{"lisp.lcaf.type": "1", "lisp.lcaf.afi_list.ipv4": "192.0.2.1", "lisp.lcaf.afi_list.ipv6": "2001:db8::1", "lisp.lcaf.afi_list.dn": "name"}},
		{"Instance-ID", InstanceIDLCAF{InstanceID: 16777214, Address: v6Address},
			map[string]string{"lisp.lcaf.type": "2", "lisp.lcaf.length": "22", "lisp.lcaf.iid": "16777214", "lisp.lcaf.iid.ipv6": "2001:db8::1"}},
		{"AS number", ASNumberLCAF{ASNumber: 64496, Address: v4Address}, map[string]string{"lisp.lcaf.asn": "64496", "lisp.lcaf.asn.ipv4": "192.0.2.1"}},
		{"Geo", GeoLCAF{North: true, Latitude: Degrees{52, 31, 12}, Longitude: Degrees{13, 24, 36}, AltitudeMeters: NoAltitude, Address: v4Address},
			map[string]string{"lisp.lcaf.geo.lat.deg": "52", "lisp.lcaf.geo.lat.min": "31", "lisp.lcaf.geo.lat.sec": "12", "lisp.lcaf.geo.lon.deg": "13",
				"lisp.lcaf.geo.lon.min": "24", "lisp.lcaf.geo.lon.sec": "36", "lisp.lcaf.geo.ipv4": "192.0.2.1"}},
		{"Nonce locator", NonceLocatorLCAF{Nonce: 0x010203, Address: v4Address}, map[string]string{"lisp.lcaf.nonce_loc": "0x010203", "lisp.lcaf.nonce_loc.ipv4": "192.0.2.1"}},
		{"Multicast info", MulticastInfoLCAF{InstanceID: 5, SourceMaskLen: 32, GroupMaskLen: 24, Source: v4Address, Group: IPv4{233, 252, 0, 0}},
			map[string]string{"lisp.lcaf.mcinfo_iid": "5", "lisp.lcaf.mcinfo.src.masklen": "32", "lisp.lcaf.mcinfo.grp.masklen": "24",
				"lisp.lcaf.mcinfo.src.ipv4": "192.0.2.1", "lisp.lcaf.mcinfo.grp.ipv4": "233.252.0.0"}},
		{"Explicit locator path", &ExplicitLocatorPathLCAF{Hops: []PathHop{{Lookup: true, Address: v4Address}, {Probe: true, Strict: true, Address: v6Address}}},
			map[string]string{"lisp.lcaf.elp_hop.flags.local": "1|0", "lisp.lcaf.elp_hop.flags.probe": "0|1", "lisp.lcaf_elp_hop.flags.strict": "0|1",
				"lisp.lcaf.elp_hop.ipv4": "192.0.2.1", "lisp.lcaf.elp_hop.ipv6": "2001:db8::1"}},
		{"Source/Dest", SourceDestLCAF{SourceMaskLen: 24, DestinationMaskLen: 16, Source: v4Address, Destination: v6Address},
			map[string]string{"lisp.lcaf.srcdst.src.masklen": "24", "lisp.lcaf.srcdst.dst.masklen": "16", "lisp.lcaf.srcdst.src.ipv4": "192.0.2.1", "lisp.lcaf.srcdst.dst.ipv6": "2001:db8::1"}},
		{"Replication list", &ReplicationListLCAF{Entries: []ReplicationEntry{{Level: 128, Address: v4Address}, {Level: 1, Address: v6Address}}},
			map[string]string{"lisp.lcaf.rle_entry.level": "128|1", "lisp.lcaf.rle_entry.ipv4": "192.0.2.1", "lisp.lcaf.rle_entry.ipv6": "2001:db8::1"}},
		{"Key/Value", KeyValueLCAF{Key: v4Address, Value: DistinguishedName("v")}, map[string]string{"lisp.lcaf.kv_key.ipv4": "192.0.2.1", "lisp.lcaf.kv_value.dn": "v"}},
	} {
		reply := &MapReply{Records: []Record{{EID: c.eid, TTLMinutes: 77}, negativeRecord()}}
		c.fields["lisp.mapping.ttl"] = "77|15" // the record after it starts where it should
		opinions = append(opinions, control(t, c.name, reply, c.fields))
	}
	return opinions
}

func opinionsOnData(t *testing.T) []opinion {
	inner, err := AppendECM(nil, netip.MustParseAddrPort("10.1.0.1:1"), netip.MustParseAddrPort("10.2.0.1:2"), []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	inner = inner[4:] // the packet without the ECM's first word
	var opinions []opinion
	for _, c := range []struct {
		name   string
		header DataHeader
		fields map[string]string
	}{
		{"nonce and echo", DataHeader{NoncePresent: true, EchoNonce: true, Nonce: 0xabcdef, LocatorStatusBits: true, StatusBits: 0x80000001},
			map[string]string{"lisp-data.flags.nonce": "1", "lisp-data.flags.enr": "1", "lisp-data.flags.lsb": "1", "lisp-data.flags.mv": "0", "lisp-data.flags.iid": "0", "lisp-data.nonce": "11259375"}},
		{"map-versions", DataHeader{MapVersion: true, SourceVersion: 0x123, DestinationVersion: 0x456},
			map[string]string{"lisp-data.flags.nonce": "0", "lisp-data.flags.mv": "1", "lisp-data.srcmapver": "291", "lisp-data.dstmapver": "1110"}},
		{"instance", DataHeader{Instance: true, InstanceID: 0xfffffe, LocatorStatusBits: true, StatusBits: 0x81},
			map[string]string{"lisp-data.flags.iid": "1", "lisp-data.iid": "16777214", "lisp-data.lsb8": "0x81"}},
	} {
		b, err := c.header.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.fields["ip.dst"] = "192.0.2.2|10.2.0.1"
		opinions = append(opinions, opinion{c.name, DataPort, append(b, inner...), c.fields})
	}
	return opinions
}

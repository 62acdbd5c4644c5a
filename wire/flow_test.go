// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"strings"
	"testing"

	"loci/lisp"
)

// testFlow is one between hosts of a family.
func testFlow(t *testing.T, source, destination string, instance lisp.InstanceID) lisp.Flow {
	t.Helper()
	eid := func(text string) lisp.EID {
		return lisp.MustParsePrefix(text).EID()
	}
	return lisp.Flow{
		Instance: instance, Source: eid(source), Destination: eid(destination), Protocol: 6,
		SourcePort: 40000, DestinationPort: 443,
	}
}

// flowRequests are records as they stand in a Map-Request, after the octet of N.
var flowRequests = map[string]string{
	"v4": "20 4003 0000 0400 0012 000000 06 01bb 01bb 9c40 9c40 0001 0a020001",
	"v6": "80 4003 0000 0400 001e 000000 06 01bb 01bb 9c40 9c40 0002 20010db8000200000000000000000001",
	"instance": "20 4003 0000 0400 001e 000000 06 01bb 01bb 9c40 9c40" +
		" 4003 0000 0200 000a 00000007 0001 0a020001",
}

// TestFlowsThroughRecords: Application Data (RFC 8060 s.5.1) asks for the path of a flow, with local ports of the
// destination and remote ones of the source; the answer has the same EID and an Explicit Locator Path.
func TestFlowsThroughRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		flow lisp.Flow
	}{
		{"v4", testFlow(t, "10.1.0.1/32", "10.2.0.1/32", 0)},
		{"v6", testFlow(t, "2001:db8:1::1/128", "2001:db8:2::1/128", 0)},
		{"instance", testFlow(t, "10.1.0.1/32", "10.2.0.1/32", 7)},
	} {
		m := &MapRequest{Nonce: 1}
		m.AskFlow(c.flow, []lisp.RLOC{rloc(t, "192.0.2.1")})
		b, err := m.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := octets(t, "00 "+flowRequests[c.name]); !bytes.HasSuffix(b, want) {
			t.Errorf("%s is asked for by %x, want %x at its end", c.name, b, want)
		}
		parsed, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		request := parsed.(*MapRequest)
		if f, err := request.Flow(); err != nil || f != c.flow {
			t.Errorf("%s: read as %s, %v", c.name, f, err)
		}
		checkAnswers(t, c.name, c.flow, request)
	}
}

// checkAnswers answers with a path of two hops, and with a plain locator.
func checkAnswers(t *testing.T, name string, f lisp.Flow, request *MapRequest) {
	t.Helper()
	path, err := lisp.NewPath(rloc(t, "203.0.113.1"), rloc(t, "203.0.113.2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []lisp.Path{path, lisp.PathTo(rloc(t, "203.0.113.2"))} {
		l := lisp.NewLocator(p.RLOC)
		l.Behind = p.Behind
		b, err := (&MapReply{Nonce: 1, Records: []Record{FlowRecord(request.Records[0], 2, l)}}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, octets(t, "4003 0000 0a00")) {
			t.Errorf("%s: no Explicit Locator Path in %x", name, b)
		}
		m, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		told, got, err := m.(*MapReply).FlowPath()
		if told.Source = f.Source; err != nil || told != f || got != p {
			t.Errorf("%s: answered %s by %s, %v", name, told, got, err)
		}
	}
}

// TestRecordsThatAreNoFlow are refused: ranges and other protocols say more than one flow.
func TestRecordsThatAreNoFlow(t *testing.T) {
	const good = "20 4003 0000 0400 0012 000000 06 01bb 01bb 9c40 9c40 0001 0a020001"
	for _, c := range []struct{ name, record, source, want string }{
		{"good", good, "0001 0a010001", ""},
		{"a traffic class", strings.Replace(good, "000000", "0000b8", 1), "0001 0a010001", ""},
		{"local range", strings.Replace(good, "01bb 01bb", "01bb 01bc", 1), "0001 0a010001", "ports"},
		{"remote range", strings.Replace(good, "9c40 9c40", "0000 ffff", 1), "0001 0a010001", "ports"},
		{"reversed range", strings.Replace(good, "9c40 9c40", "9c40 9c3f", 1), "0001 0a010001", "ports"},
		{"local port 0", strings.Replace(good, "01bb 01bb", "0000 0000", 1), "0001 0a010001", "port 0"},
		{"remote port 0", strings.Replace(good, "9c40 9c40", "0000 0000", 1), "0001 0a010001", "port 0"},
		{"UDP", strings.Replace(good, "000000 06", "000000 11", 1), "0001 0a010001", "protocol 17"},
		{"a prefix", "18" + good[2:], "0001 0a010001", "mask length of an EID"},
		{"a mask too long", "21" + good[2:], "0001 0a010001", "33"},
		{"no source", good, "0000", "source EID"},
		{"another family", good, "0002 20010db8000100000000000000000001", "family"},
		{"another Instance-ID", good, "4003 0000 0220 000a 00000007 0001 0a010001", "Instance-ID 7"},
		{"a plain EID", "20 0001 0a020001", "0001 0a010001", "not Application Data"},
		{"no EID inside", "00 4003 0000 0400 000e 000000 06 01bb 01bb 9c40 9c40 0000", "0001 0a010001", "destination EID"},
		{"Application Data twice", "20 4003 0000 0400 0026 000000 06 01bb 01bb 9c40 9c40 " + good[3:],
			"0001 0a010001", "cannot be an EID"},
		{"a Source/Dest inside", "20 4003 0000 0400 0024 000000 06 01bb 01bb 9c40 9c40" +
			" 4003 0000 0c00 0010 0000 20 20 0001 0a010001 0001 0a020001", "0001 0a010001", "cannot be an EID"},
	} {
		b := octets(t, "10000001 0000000000000001 "+c.source+" 0001 c0000201 00 "+c.record)
		m, err := Parse(b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, err = m.(*MapRequest).Flow()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, record := range []string{
		"20 4003 0000 0400 0010 000000 06 01bb 01bb 9c40 9c40 0001 0a02", // an address that is cut off
		"20 4003 0000 0400 000a 000000 06 01bb 01bb 9c40",
		"20 4003 0000 0400 0013 000000 06 01bb 01bb 9c40 9c40 0001 0a020001",
	} {
		if m, err := Parse(octets(t, "10000001 0000000000000001 0001 0a010001 0001 c0000201 00 "+record)); err == nil {
			t.Errorf("%s is read as %+v", record, m)
		}
	}
}

// TestAnswersThatAreNoPath are refused: none, several, and those that no packet can take.
func TestAnswersThatAreNoPath(t *testing.T) {
	f := testFlow(t, "10.1.0.1/32", "10.2.0.1/32", 0)
	asked := RequestRecord{EID: FlowAddress(f), MaskLen: 32}
	good := FlowRecord(asked, 1, lisp.NewLocator(rloc(t, "203.0.113.2")))
	with := func(change func(*Record)) []Record {
		r := good
		r.Locators = append([]LocatorRecord(nil), good.Locators...)
		change(&r)
		return []Record{r}
	}
	for name, records := range map[string][]Record{
		"no record":     nil,
		"two records":   {good, good},
		"no locator":    with(func(r *Record) { r.Locators = nil }),
		"two locators":  with(func(r *Record) { r.Locators = append(r.Locators, good.Locators[0]) }),
		"unused":        with(func(r *Record) { r.Locators[0].Priority = lisp.PriorityUnused }),
		"an empty path": with(func(r *Record) { r.Locators[0].Address = &ExplicitLocatorPathLCAF{} }),
		"a name":        with(func(r *Record) { r.Locators[0].Address = DistinguishedName("xtr") }),
		"a plain EID":   with(func(r *Record) { r.EID = IPv4{10, 2, 0, 1} }),
		"a prefix":      with(func(r *Record) { r.MaskLen = 24 }),
	} {
		if got, path, err := (&MapReply{Records: records}).FlowPath(); err == nil {
			t.Errorf("%s is taken as %s by %s", name, got, path)
		}
	}
}

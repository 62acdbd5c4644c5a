// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/datapath"
	"loci/daemon/hostnet"
	"loci/dataplane"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// samples are two values each of types that are not set field by field.
var samples = map[reflect.Type][2]any{
	reflect.TypeFor[time.Time]():      {time.Unix(1_700_000_000, 0).UTC(), time.Unix(1_700_000_001, 0).UTC()},
	reflect.TypeFor[netip.Addr]():     {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
	reflect.TypeFor[netip.AddrPort](): {netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("[2001:db8::1]:4342")},
	reflect.TypeFor[lisp.Prefix]():    {lisp.MustParsePrefix("10.1.0.0/16"), lisp.MustParsePrefix("2001:db8::/32")},
	reflect.TypeFor[lisp.EID]():       {lisp.MustParsePrefix("10.1.0.1").EID(), lisp.MustParsePrefix("2001:db8::1").EID()},
	reflect.TypeFor[lisp.RLOC]():      {sampleRLOC("192.0.2.1"), sampleRLOC("2001:db8::1")},
	reflect.TypeFor[lisp.LocatorSet](): {
		lisp.LocatorSet{{RLOC: sampleRLOC("192.0.2.1")}}, lisp.LocatorSet{{RLOC: sampleRLOC("2001:db8::1")}},
	},
	reflect.TypeFor[lisp.Action]():          {lisp.ActionDrop, lisp.ActionNativelyForward},
	reflect.TypeFor[control.LocatorState](): {control.LocatorUp, control.LocatorDown},
	reflect.TypeFor[datapath.Outcome]():     {datapath.Lost, datapath.Passes},
}

func sampleRLOC(text string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(text)) }

// fill sets all fields of a value to their first samples.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if pair, ok := samples[v.Type()]; ok {
		v.Set(reflect.ValueOf(pair[0]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Array:
		fill(t, v.Index(0))
	default:
		setScalar(t, v, 1)
	}
}

// setScalar sets what is neither in samples nor made of others: n tells one sample from another.
func setScalar(t *testing.T, v reflect.Value, n int) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.String:
		v.SetString(fmt.Sprint("sample ", n))
	default:
		t.Fatalf("no sample of %s", v.Type())
	}
}

// eachField sets every field below v by itself to its second sample, calls changed with its name, and sets it back.
func eachField(t *testing.T, v reflect.Value, name string, changed func(name string)) {
	t.Helper()
	if pair, ok := samples[v.Type()]; ok {
		v.Set(reflect.ValueOf(pair[1]))
		changed(name)
		v.Set(reflect.ValueOf(pair[0]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			if name != "" {
				field = name + "." + field
			}
			eachField(t, v.Field(i), field, changed)
		}
	case reflect.Slice, reflect.Array:
		eachField(t, v.Index(0), name, changed)
	default:
		setScalar(t, v, 2)
		changed(name)
		setScalar(t, v, 1)
	}
}

// checkFields sets each field of what a document is made of by itself. The document has to change with it, or without
// says why not.
func checkFields[S any](t *testing.T, document func(S) any, without map[string]string) {
	t.Helper()
	var source S
	v := reflect.ValueOf(&source).Elem()
	fill(t, v)
	text := func() []byte {
		var b bytes.Buffer
		if err := jsondoc.WriteIndented(&b, document(source)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	full, unused := text(), map[string]bool{}
	for name := range without {
		unused[name] = true
	}
	eachField(t, v, "", func(name string) {
		delete(unused, name)
		switch has, reason := !bytes.Equal(text(), full), without[name]; {
		case !has && reason == "":
			t.Errorf("the document of %T omits %s, and no reason is listed", source, name)
		case has && reason != "":
			t.Errorf("the document of %T has %s, which is listed as left out: %s", source, name, reason)
		}
	})
	for name := range unused {
		t.Errorf("%T has no %s, which is listed as left out", source, name)
	}
}

// TestDocumentsHaveAllFields: what is known of an entry is in the document of its table.
func TestDocumentsHaveAllFields(t *testing.T) {
	t.Run("map-cache", func(t *testing.T) {
		checkFields(t, func(e dataplane.MapCacheEntry) any { return mapCacheDocument(e) }, map[string]string{
			"Mapping.TTLMinutes": "expires_at has it",
			"Mapping.EchoNonce":  "show locators has what came of it",
			"Mapping.Version":    "the ITR compares it with what packets carry; explain has it",
		})
		checkFields(t, func(l control.SecondLayer) any { return layersDocument([]control.SecondLayer{l}) }, nil)
	})
	t.Run("map-requests", func(t *testing.T) {
		checkFields(t, func(r control.PendingRequest) any { return mapRequestDocument(r) }, nil)
	})
	t.Run("database", func(t *testing.T) {
		checkFields(t, func(m control.DatabaseMapping) any { return databaseDocument(m) }, nil)
	})
	t.Run("registrations", func(t *testing.T) {
		const merged = "it is the merge of what the records of the same EID-Prefix say"
		const record = "a Map-Register's record has it, and Map-Servers ignore it"
		checkFields(t, func(r control.Registration) any { r.AsAnswered = !r.AsAnswered; return registrationDocument(r) }, map[string]string{
			"Mapping.Prefix": "Prefix is the same", "Mapping.Action": record, "Mapping.Authoritative": record, "Mapping.EchoNonce": record,
			"Merged.Prefix": "Prefix is the same", "Merged.Action": merged, "Merged.Authoritative": merged, "Merged.EchoNonce": merged,
			"Merged.TTLMinutes": merged, "Merged.Version": merged,
		})
	})
	t.Run("locators", func(t *testing.T) {
		base := api.LocatorState{State: dataplane.LocatorUp.String()}
		const mapping = "the mapping says it"
		checkFields(t, func(s control.LocatorStatus) any { d := base; addLocatorStatus(&d, s); return d }, map[string]string{
			"RLOC": mapping, "Behind": mapping, "Bits": "each mapping has its own", "Next": mapping,
			"Told":     "it is what State was when the data plane last learnt of it",
			"Mappings": "eid_prefixes counts what the data plane has",
			"Prefix":   "the one that probes name is one of many",
		})
		checkFields(t, func(s dataplane.EchoState) any { return echoDocument(s) }, nil)
		checkFields(t, func(s datapath.State) any { return dataPathDocument(s) }, map[string]string{
			"EIDPrefix": "it is one of many", "Locators.RLOC": "it is whose state this is", "Locators.Behind": "likewise",
		})
	})
	t.Run("interfaces", func(t *testing.T) {
		checkFields(t, func(i dataplane.Interface) any { return interfaceDocument(i, dataplane.InterfaceState{}) }, map[string]string{
			"Hook": "it is what was asked for; the state has the one in force",
		})
		checkFields(t, func(s dataplane.InterfaceState) any { return interfaceDocument(dataplane.Interface{}, s) }, map[string]string{
			"Name": "the settings have it",
		})
		checkFields(t, func(o hostnet.OwnRLOC) any { return ownRLOCDocument(o) }, nil)
	})
	t.Run("siblings", func(t *testing.T) {
		checkFields(t, func(s control.SiblingPathStatus) any { return siblingsDocument(s) }, nil)
		checkFields(t, func(s control.SiblingStatus) any { return siblingDocument(s) }, map[string]string{
			"SiblingPathTaken": "forwarding_sibling of the whole answer names that sibling",
		})
	})
	t.Run("nat", func(t *testing.T) {
		checkFields(t, func(r control.NATRTR) any { return natRTRDocument(r, 0) }, nil)
		checkFields(t, func(b control.NATBinding) any { return natBindingDocument(b) }, map[string]string{
			"Seen": "one of RLOCs", "Private": "likewise",
			"Own": "the address that its keepalives come to: this RTR's own",
		})
	})
	t.Run("status", func(t *testing.T) {
		checkFields(t, func(m control.MapServerStatus) any { return mapServerDocument(m) }, nil)
		checkFields(t, func(m control.MapResolverStatus) any { return mapResolverDocument(m) }, nil)
	})
	t.Run("datapath", func(t *testing.T) {
		checkFields(t, func(s dataplane.DatapathState) any { return describeDatapath(s) }, nil)
	})
}

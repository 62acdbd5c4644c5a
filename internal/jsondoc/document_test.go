// SPDX-License-Identifier: Apache-2.0

package jsondoc_test

import (
	"encoding/json"
	"io"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// fill gives every field of a document a value; variant chooses which.
func fill(t *testing.T, v reflect.Value, variant int) {
	t.Helper()
	texts := []string{"plain", `"quoted" \ <&>`, "Zürich \u2028\x00\xff", ""}
	switch target := v.Addr().Interface().(type) {
	case *lisp.Prefix:
		*target = lisp.MustParsePrefix([]string{"10.1.0.0/16", "[7]2001:db8::/32", `"ietf.lisp"`, "02:00:00:00:00:01/48"}[variant%4])
		return
	case *lisp.RLOC:
		*target = lisp.RLOCFromAddr(netip.MustParseAddr([]string{"192.0.2.1", "2001:db8::1"}[variant%2]))
		return
	case *netip.Addr:
		*target = netip.MustParseAddr([]string{"192.0.2.1", "2001:db8::1"}[variant%2])
		return
	case *time.Time:
		*target = time.Date(2026, 11, 23, 4, 5, 6, variant*1_000_001, time.FixedZone("", 3600*(variant%3)))
		return
	case *lisp.EID:
		*target = lisp.EIDFromAddr(netip.MustParseAddr([]string{"10.1.0.1", "2001:db8::7"}[variant%2]))
		return
	case *lisp.Action:
		*target = lisp.Action(variant % 8)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(variant%2 == 0)
	case reflect.String:
		v.SetString(texts[variant%len(texts)])
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(variant - 2))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(variant))
	case reflect.Float64:
		v.SetFloat(float64(variant) / 3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), variant)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), variant%3, 3))
		for i := range v.Len() {
			fill(t, v.Index(i), variant+i)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), variant+i)
		}
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

// emptyText is a text that is not known, or does not apply: null in a document.
var emptyText = regexp.MustCompile(`([:,\[])""`)

// TestDocumentsAreWhatEncodingJSONMakes of every document that is listed, with all its fields, but for empty texts.
func TestDocumentsAreWhatEncodingJSONMakes(t *testing.T) {
	for _, document := range []any{&api.MapCacheEntry{}, &api.DatabaseEntry{}, &api.PendingMapRequest{}, &api.Registration{}, &api.Explanation{}, &api.LocatorState{}} {
		for variant := range 24 {
			fill(t, reflect.ValueOf(document).Elem(), variant)
			text, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			text = emptyText.ReplaceAll(text, []byte("${1}null"))
			if got, err := jsondoc.Append(nil, document); err != nil || !reflect.DeepEqual(parsed(t, got), parsed(t, text)) {
				t.Errorf("%T: %s, %v\nwant %s", document, got, err, text)
			}
		}
	}
}

func parsed(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

type inner struct {
	Words []string `json:"words"`
	Up    bool     `json:"up"`
}

type outer struct {
	inner
	Count    int                         `json:"count"`
	Took     jsondoc.Seconds             `json:"took_seconds"`
	Known    *jsondoc.Seconds            `json:"known_seconds"`
	At       *time.Time                  `json:"at"`
	ByName   map[string][]int            `json:"by_name"`
	Any      any                         `json:"any"`
	Raw      json.RawMessage             `json:"raw"`
	Inside   []inner                     `json:"inside"`
	Unnamed  int                         // without a key: not written
	Prefixes map[string]*jsondoc.Seconds `json:"prefixes"`
}

// TestNothingIsLeftOut: false, 0 and what is empty or unknown has its key.
func TestNothingIsLeftOut(t *testing.T) {
	half := jsondoc.Seconds(0.5)
	for _, c := range []struct {
		document any
		want     string
	}{
		{outer{Raw: json.RawMessage("{}")}, `{"words":[],"up":false,"count":0,"took_seconds":0,"known_seconds":null,"at":null,"by_name":{},"any":null,"raw":{},"inside":[],"prefixes":{}}`},
		{&outer{inner: inner{Words: []string{"a -> <b>", "ü\n"}, Up: true}, Count: -7, Took: jsondoc.SecondsOf(1500 * time.Nanosecond), Known: &half, Raw: json.RawMessage("[1]"),
			ByName: map[string][]int{"b-c": nil, "a": {1, 2}}, Any: []bool{true}, Inside: []inner{{}}, Prefixes: map[string]*jsondoc.Seconds{"x": nil}},
			`{"words":["a -> <b>","ü\n"],"up":true,"count":-7,"took_seconds":0.0000015,"known_seconds":0.5,"at":null,"by_name":{"a":[1,2],"b-c":[]},"any":[true],"raw":[1],` +
				`"inside":[{"words":[],"up":false}],"prefixes":{"x":null}}`},
		{map[string]float64{"large": 1.5e300, "small": -1e-9}, `{"large":1.5e+300,"small":-0.000000001}`},
		{[]string(nil), `[]`},
		{nil, `null`},
	} {
		var line, indented strings.Builder
		if err := jsondoc.Write(&line, c.document); err != nil || line.String() != c.want+"\n" {
			t.Errorf("got %v, %s\nwant %s", err, line.String(), c.want)
		}
		if err := jsondoc.WriteIndented(&indented, c.document); err != nil || !reflect.DeepEqual(parsed(t, []byte(indented.String())), parsed(t, []byte(c.want))) {
			t.Errorf("indented: %v, %s", err, indented.String())
		}
	}
	if err := jsondoc.Write(io.Discard, math.NaN()); err == nil {
		t.Error("NaN is written")
	}
}

// TestSecondsAreExact to the nanosecond, for all that a router measures.
func TestSecondsAreExact(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 999, 1_234_567, time.Second - 1, 86_399_999_999_999, 4*time.Minute + 9*time.Second + 999_999_999} {
		if back := jsondoc.SecondsOf(d).Duration(); back != d {
			t.Errorf("%s came back as %s", d, back)
		}
	}
	if jsondoc.Known(0) != nil || *jsondoc.Known(time.Minute) != 60 {
		t.Error("0 is known, or a minute is not 60 seconds")
	}
}

// TestDocumentsLeaveNoGarbage: a list of a million would leave much.
func TestDocumentsLeaveNoGarbage(t *testing.T) {
	locators := []api.Locator{{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))}, {RLOC: lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::1"))}}
	now := time.Now()
	var text []byte
	for _, document := range []any{
		&api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix("[7]10.1.0.0/16"), Locators: locators, CreatedAt: now, ExpiresAt: &now},
		&api.Registration{EIDPrefix: lisp.MustParsePrefix("2001:db8::/32"), Locators: locators, Site: "a", ETR: "192.0.2.1:4342", FirstRegisteredAt: now},
	} {
		var err error
		if n := testing.AllocsPerRun(100, func() { text, err = jsondoc.Append(text[:0], document) }); n > 0 || err != nil {
			t.Errorf("%T: %v allocations, %v", document, n, err)
		}
	}
}

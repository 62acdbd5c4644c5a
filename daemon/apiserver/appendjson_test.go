// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"loci/daemon/api"
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
	case *time.Time:
		*target = time.Date(2026, 11, 23, 4, 5, 6, variant*1_000_001, time.FixedZone("", 3600*(variant%3)))
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

// TestDocumentsAreWhatEncodingJSONMakes of every document that is listed, empty and with all its fields.
func TestDocumentsAreWhatEncodingJSONMakes(t *testing.T) {
	for _, document := range []any{&api.MapCacheEntry{}, &api.DatabaseEntry{}, &api.PendingMapRequest{}, &api.Registration{}} {
		for variant := -1; variant < 24; variant++ {
			if variant >= 0 {
				fill(t, reflect.ValueOf(document).Elem(), variant)
			}
			want, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := appendDocument(nil, document); err != nil || string(got) != string(want) {
				t.Errorf("%T: %s, %v\nwant %s", document, got, err, want)
			}
		}
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
		if n := testing.AllocsPerRun(100, func() { text, err = appendDocument(text[:0], document) }); n > 0 || err != nil {
			t.Errorf("%T: %v allocations, %v", document, n, err)
		}
	}
}

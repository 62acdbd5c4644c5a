// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// What of package dataplane goes over the socket arrives whole: every field is given a
// value of its own, also those that this test has never heard of.
func TestNothingIsLeftOut(t *testing.T) {
	for _, value := range []any{
		dataplane.Settings{}, dataplane.Counters{}, dataplane.MapCacheEntry{}, dataplane.DatabaseEntry{},
		dataplane.Miss{}, dataplane.Expired{}, dataplane.StatusBitsChanged{}, dataplane.LocalVersionStale{}, dataplane.RemoteVersionStale{},
		dataplane.NonceMismatch{}, dataplane.Gleaned{}, dataplane.LocatorUnreachable{}, dataplane.MTUChanged{},
		dataplane.Subflow{},
		dataplane.FlowEntry{},
	} {
		t.Run(reflect.TypeOf(value).Name(), func(t *testing.T) {
			filled := reflect.New(reflect.TypeOf(value)).Elem()
			filler := filler{}
			filler.fill(t, filled)
			want := filled.Interface()
			if got := carried(t, want); !reflect.DeepEqual(got, want) {
				t.Errorf("arrives as\n%+v, was\n%+v", got, want)
			}
		})
	}
}

// carried is a value behind a message.
func carried(t *testing.T, value any) any {
	t.Helper()
	var sent, received Message
	switch v := value.(type) {
	case dataplane.Settings:
		sent.Reset(TypeSetSettings)
		sent.SetSettings(v)
	case dataplane.Counters:
		sent.Reset(TypeGetCounters)
		sent.SetCounters(v)
	case dataplane.MapCacheEntry:
		sent.Reset(TypeAdd)
		sent.SetMapping(&v)
		sent.SetUsage(v.Usage)
	case dataplane.DatabaseEntry:
		sent.Reset(TypeAdd)
		sent.SetDatabase(&v, nil)
	case dataplane.FlowEntry:
		sent.Reset(TypeDumpFlows)
		sent.SetFlowEntry(&v)
	case dataplane.Event:
		if !sent.SetEvent(v) {
			t.Fatalf("there is no message for %T", v)
		}
	}
	if _, err := received.Parse(written(t, nil, &sent)); err != nil {
		t.Fatal(err)
	}
	switch value.(type) {
	case dataplane.Settings:
		return received.Settings()
	case dataplane.Counters:
		return received.Counters()
	case dataplane.MapCacheEntry:
		entry, err := received.MapCacheEntry(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		entry.Usage = received.Usage
		return entry
	case dataplane.DatabaseEntry:
		var entry dataplane.DatabaseEntry
		if err := received.ChangeDatabase(&entry); err != nil {
			t.Fatal(err)
		}
		return entry
	}
	if _, is := value.(dataplane.FlowEntry); is {
		entry, err := received.FlowEntry()
		if err != nil {
			t.Fatal(err)
		}
		return entry
	}
	event, ok := received.Event()
	if !ok {
		t.Fatalf("a message that tells of no event: %s", &received)
	}
	return event
}

// filler gives every field a value other than zero, and neighbours of many values different ones.
type filler struct{ n uint64 }

func (f *filler) fill(t *testing.T, v reflect.Value) {
	t.Helper()
	f.n++
	if known := f.known(v.Interface()); known != nil {
		v.Set(reflect.ValueOf(known))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == reflect.TypeFor[lisp.Locator]() && v.Type().Field(i).Name == "Address" {
				continue // a Map-Server's alone: no table of a data plane has it
			}
			f.fill(t, v.Field(i))
			if rloc, ok := v.Field(i).Interface().(lisp.RLOC); ok && v.Type() == reflect.TypeFor[lisp.Locator]() {
				v.Field(i).Set(reflect.ValueOf(rloc.WithPort(uint16(f.n))))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(t, v.Index(0))
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(t, key)
		f.fill(t, element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("site0")
	case reflect.Uint8: // mostly enumerations; none has fewer values than two
		v.SetUint(1)
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.n)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// known are values of types that are more than their fields.
func (f *filler) known(v any) any {
	octet := byte(f.n)
	switch v.(type) {
	case netip.Prefix:
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, octet, 0}), 24)
	case netip.Addr:
		return netip.AddrFrom4([4]byte{10, 1, 0, octet})
	case lisp.RLOC:
		return lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, octet}))
	case lisp.Hops:
		path, err := lisp.NewPath(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, 1})), lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 3, octet})).WithPort(uint16(f.n)))
		if err != nil {
			panic(err) // octet is in no hop twice
		}
		return path.Behind
	case lisp.PathBits: // of two hops
		return lisp.PathBits{lisp.HopExplicit | lisp.HopStrict, lisp.HopExplicit | lisp.HopLookup | lisp.HopProbe}
	case lisp.EID:
		return lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, 8, 0, octet}))
	case lisp.Prefix:
		return lisp.MustParsePrefix("[7]10.7.0.0/16")
	case time.Time:
		return time.Unix(1700000000+int64(f.n), 0)
	case dataplane.MissForm:
		return dataplane.MissFormPacket
	}
	return nil
}

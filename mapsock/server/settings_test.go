// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// longSettings need several messages, of as many prefixes as lists may have.
func longSettings(base dataplane.Settings) dataplane.Settings {
	prefixes := func(second byte, count int) (all []netip.Prefix) {
		for i := range count {
			a := [16]byte{0x20, second}
			binary.BigEndian.PutUint16(a[4:], uint16(i))
			all = append(all, netip.PrefixFrom(netip.AddrFrom16(a), 48))
		}
		return all
	}
	base.Lists = []dataplane.AccessList{
		{Allow: prefixes(1, 1500), Deny: prefixes(2, 1500)},
		{Packets: dataplane.ListDecapsulated, Instance: 7, Deny: prefixes(3, dataplane.MaxListPrefixes-3001)},
		{Address: dataplane.ListOuterDestination, Allow: prefixes(4, 1)},
	}
	base.Roles = []dataplane.RolePolicy{
		{Role: dataplane.RoleRTR, EIDs: prefixes(5, 1200)},
		{Role: dataplane.RolePITR, Instance: 7, EIDs: prefixes(6, 1200), Sources: prefixes(7, 1200)},
	}
	base.MissPolicies = map[lisp.InstanceID]dataplane.MissPolicy{}
	for i := range 3000 {
		base.MissPolicies[lisp.InstanceID(i)] = dataplane.MissDrop
	}
	return base
}

// Settings of more octets than a message has go to the engine, come back and are heard.
func TestLongSettings(t *testing.T) {
	s := serve(t, Options{})
	want := longSettings(s.engine.Settings())
	for name, plane := range map[string]dataplane.Plane{"by the socket": s.dial(t), "in the process": s.server.Plane()} {
		heard := s.monitor(t, mapsock.HearOperations)
		apply(t, plane, dataplane.SetSettings{}, to("10.2.0.0/24", "192.0.2.2"), dataplane.SetSettings{Settings: want}, to("10.3.0.0/24", "192.0.2.2"))
		if got := s.engine.Settings(); !reflect.DeepEqual(got.Lists, want.Lists) || !reflect.DeepEqual(got.Roles, want.Roles) || !reflect.DeepEqual(got.MissPolicies, want.MissPolicies) {
			t.Errorf("%s: other settings are in force", name)
		}
		if got := plane.Settings(); !reflect.DeepEqual(got, s.engine.Settings()) {
			t.Errorf("%s: other settings are told than are in force", name)
		}
		next(t, heard, mapsock.TypeSetSettings)
		next(t, heard, mapsock.TypeAdd)
		var all mapsock.Message
		for parts := 1; ; parts++ {
			m := next(t, heard, mapsock.TypeSetSettings)
			if parts == 1 {
				all = *m
			} else if err := all.Join(m); err != nil {
				t.Fatal(err)
			}
			if m.Errno != 0 || m.Flags&mapsock.FlagDone == 0 {
				t.Fatalf("%s: part %d: %s", name, parts, m)
			}
			if m.Flags&mapsock.FlagMore == 0 {
				break
			}
		}
		if !reflect.DeepEqual(all.Settings(), s.engine.Settings()) {
			t.Errorf("%s: listeners hear of other settings", name)
		}
		next(t, heard, mapsock.TypeAdd)
	}
}

// What is wrong with one part is wrong with all, changes nothing, and is forgotten with the last.
func TestBrokenParts(t *testing.T) {
	whole := mapsock.Message{Type: mapsock.TypeSetSettings}
	whole.SetSettings(longSettings(dataplane.Settings{}))
	short := mapsock.Message{Type: mapsock.TypeSetSettings}
	short.SetSettings(dataplane.Settings{})
	b := mustAppend(t, nil, &short)
	more := func(m mapsock.Message) []byte {
		m.Type, m.Flags = mapsock.TypeSetSettings, mapsock.FlagMore
		m.Mark(mapsock.AttributeList)
		return mustAppend(t, nil, &m)
	}
	continued := more(mapsock.Message{Lists: longSettings(dataplane.Settings{}).Lists[2:]})
	binary.NativeEndian.PutUint32(continued[mapsock.HeaderSize+4:], 1<<16|uint32(dataplane.ListOuterDestination))
	unknown := more(mapsock.Message{})
	unknown = append(unknown, unknownMandatory...)
	binary.NativeEndian.PutUint16(unknown, uint16(len(unknown)))
	var tooMany [][]byte
	for range maxParts + 3 {
		tooMany = append(tooMany, more(mapsock.Message{}))
	}
	for _, test := range []struct {
		name  string
		parts [][]byte
		want  unix.Errno
	}{
		{"continues nothing", [][]byte{continued}, unix.EINVAL},
		{"an attribute that is not known", [][]byte{unknown}, unix.ENOPROTOOPT},
		{"too many", tooMany, unix.ENOBUFS},
	} {
		s := serve(t, Options{})
		before := s.engine.Settings()
		m, raw := s.connect(t, mapsock.HearOwn)
		for i, part := range append(test.parts, b, b) {
			if _, err := raw.Write(part); err != nil {
				t.Fatal(err)
			}
			answer := next(t, m, mapsock.TypeSetSettings)
			if last := i - len(test.parts); last == 0 && answer.Errno != test.want || last > 0 && answer.Errno != 0 {
				t.Errorf("%s: message %d is answered %v", test.name, i, answer.Err())
			} else if last < 0 && answer.Flags&mapsock.FlagMore == 0 {
				t.Errorf("%s: the answer to part %d does not say that it is one", test.name, i)
			} else if last == 0 && !reflect.DeepEqual(s.engine.Settings(), before) {
				t.Errorf("%s: some of the settings are in force", test.name)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"errors"
	"testing"

	"loci/dataplane"
)

func seeds(f *testing.F) {
	f.Helper()
	add := ask2(mappingTo("10.2.0.0/24", "192.0.2.2", "2001:db8::1"))
	for _, m := range []*Message{
		full(), add, ask2(ownPrefix("10.1.0.0/24")), ask2(dataplane.Flush{MapCache: true, Database: true}), {Type: TypeDump, Flags: FlagAll},
		{Type: TypeGetCounters}, {Type: TypeListen}, {Type: TypeDetach}, ask2(dataplane.SetSettings{Settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds}}),
		ask2(dataplane.PutLocatorState{RLOC: full().Locators[1].RLOC, Behind: full().Locators[1].Behind, State: dataplane.LocatorDown}),
		ask2(dataplane.SetSettings{Settings: full().Settings()}),
		ask2(dataplane.PutFlow{Flow: boundFlow(), Path: full().Locators[1].Path()}),
		ask2(dataplane.DeleteFlow{Flow: flow6()}),
		ask2(dataplane.Flush{MapCache: true, Flows: true}),
		tell(dataplane.Subflow{Flow: flow6(), TCP: make([]byte, dataplane.MaxTCPHeader)}),
	} {
		b, err := m.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(b[:len(b)-4])
	}
	f.Add([]byte{})
	f.Add([]byte{32, 0, 1, 1})
}

func ask2(operation dataplane.Operation) *Message {
	m := &Message{}
	if err := m.SetOperation(operation); err != nil {
		panic(err) // an operation of this file
	}
	return m
}

func tell(event dataplane.Event) *Message {
	m := &Message{}
	m.SetEvent(event)
	return m
}

// Any octets are a message or an error; what is a message reads the same when it is
// written again.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		length, err := m.Parse(b)
		if length < 0 || length > len(b) || length%Alignment != 0 {
			t.Fatalf("length %d of %d", length, len(b))
		}
		if err != nil {
			var problem *FormatError
			if !errors.As(err, &problem) || problem.Errno == 0 || problem.Offset < 0 || problem.Offset > len(b) {
				t.Fatalf("error %#v", err)
			}
			return
		}
		again, err := m.Append(nil)
		if err != nil {
			t.Fatalf("%+v does not fit: %v", m, err)
		}
		var n Message
		if _, err := n.Parse(again); err != nil {
			t.Fatalf("written again: %v", err)
		}
		if !same(&m, &n) {
			t.Fatalf("%+v\nis read again as\n%+v", m, n)
		}
		_, _ = m.MapCacheEntry(m.Created)
		_, _ = m.DatabaseEntry()
		_, _, _ = m.Settings(), m.Counters(), m.String()
		_, _ = m.FlowEntry()
		_, _ = m.Event()
	})
}

// Whatever a server sends, a client does not fall over.
func FuzzClient(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newClient(nil)
		waiting, err := c.begin(3, func(i int, m *Message) {
			if i < 0 || i >= 3 {
				t.Fatalf("answer %d of 3", i)
			}
			_ = clone(m)
		})
		if err != nil || waiting.count != 3 {
			t.Fatal(err)
		}
		var m Message
		_ = c.dispatch(b, &m) // an error ends the connection
	})
}

// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"io/fs"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"loci/dataplane/model"
)

// FuzzMessages gives any octets to the reader and to both ends. What is read is
// written and read again as the same; nothing panics, and nothing grows beyond its
// bounds. Seeds are the captured messages; testdata/fuzz holds hostile ones.
func FuzzMessages(f *testing.F) {
	for _, c := range readCapture(f) {
		f.Add([]byte(c.text))
	}
	server, engine := endsWithoutSockets(f)
	f.Fuzz(func(t *testing.T, datagram []byte) {
		server.handle(datagram)
		engine.handle(datagram)
		engine.next()
		if s := server.Status(); len(s.Interfaces) > maxInterfaces || s.EncryptionKeys > maxKeyed || s.DecryptionKeys > maxKeyed {
			t.Fatalf("status %+v", s)
		}
		m, err := decode(datagram)
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 1000 {
				t.Errorf("an error of %d octets: %v", len(err.Error()), err)
			}
			return
		}
		m = readable(m)
		again, err := decode(encode(written(m)))
		if err != nil {
			t.Fatalf("%s reads, and not again: %v", datagram, err)
		}
		if !reflect.DeepEqual(m, again) {
			t.Fatalf("read as %+v\nagain   %+v", m, again)
		}
	})
}

// endsWithoutSockets are both ends, to be given datagrams by hand.
func endsWithoutSockets(tb testing.TB) (*Server, *Engine) {
	tb.Helper()
	options := ServerOptions{Settings: coreSettings}
	if err := options.complete(); err != nil {
		tb.Fatal(err)
	}
	server := &Server{plane: model.New(model.Options{Mappings: 100, Database: 100}), options: options, endpoint: &endpoint{}}
	engine := &Engine{wake: make(chan struct{}, 1), tables: newEngineTables(testMappings), endpoint: &endpoint{}}
	engine.counters.Drops = map[string]uint64{}
	engine.untold.limit = testMappings
	var watch time.Duration
	var mode fs.FileMode
	fillDefaults(&watch, &mode, &engine.options.Log, &engine.options.Now)
	engine.options.Log = slog.New(slog.DiscardHandler)
	engine.options.DatagramOctets = DefaultDatagramOctets
	if err := engine.tables.putMapping(mappingTo("172.31.2.0/24", "10.99.0.3").Entry); err != nil {
		tb.Fatal(err)
	}
	return server, engine
}

// readable leaves out what is read and never written: entries that were refused, and
// keys that could not be read.
func readable(m message) message {
	entry := func(m mapCacheMessage) mapCacheMessage {
		for i := range m.rlocs {
			m.rlocs[i].keyed = len(m.rlocs[i].keys) > 0
			if !m.rlocs[i].keyed {
				m.rlocs[i].keys = nil
			}
		}
		return m
	}
	switch m := m.(type) {
	case mapCacheMessage:
		return entry(m)
	case entireMapCacheMessage:
		m.refused = nil
		for i := range m.entries {
			m.entries[i] = entry(m.entries[i])
		}
		return m
	case databaseMessage:
		m.refused = nil
		return m
	case interfacesMessage:
		m.refused = nil
		return m
	case statisticsMessage:
		m.refused = nil
		return m
	}
	return m
}

// TestReadingIsBounded demands that reading bounds a message's locators and keys.
func TestReadingIsBounded(t *testing.T) {
	if _, err := decode(make([]byte, MaxDatagram+1)); err == nil {
		t.Error("a datagram beyond the bound was read")
	}
	m, err := decode([]byte(add("10.2.0.0/24", rloc("192.0.2.2", `,"keys":[`+repeated(`{"key-id":"1"}`, maxKeys+1)+`]`))))
	if err != nil {
		t.Fatal(err)
	}
	if r := m.(mapCacheMessage).rlocs[0]; !r.keyed || len(r.keys) != 0 || r.rloc != rlocOf("192.0.2.2") {
		t.Errorf("too many keys read as %+v", r)
	}
}

func repeated(text string, times int) string {
	all := text
	for range times - 1 {
		all += "," + text
	}
	return all
}

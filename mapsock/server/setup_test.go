// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
	"loci/mapsock"
)

// patience bounds what a test waits for; no test expects it to be used up.
const patience = 20 * time.Second

var (
	ownRLOC  = lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))
	peerRLOC = lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2"))
)

// served is an engine behind a socket.
type served struct {
	engine *model.Engine
	server *Server
	path   string
}

func serve(t testing.TB, options Options) *served {
	t.Helper()
	s := &served{engine: model.New(model.Options{}), path: socketPath(t)}
	s.engine.Apply(dataplane.SetSettings{Settings: dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}},
		LocalRLOCs: []lisp.RLOC{ownRLOC},
		Wait:       dataplane.DefaultWaitBounds,
	}})
	s.server = New(s.engine, options)
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
	})
	l, err := Listen(s.path, Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		_ = s.server.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// socketPath is short, because the address of a socket has 108 octets.
func socketPath(t testing.TB) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	return filepath.Join(directory, "map.sock")
}

func (s *served) dial(t testing.TB) *mapsock.Client {
	t.Helper()
	c, err := mapsock.Dial(s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *served) monitor(t testing.TB, hearing mapsock.Hearing) *mapsock.Monitor {
	t.Helper()
	m, _ := s.connect(t, hearing)
	return m
}

// connect also gives the connection, by which octets can be sent that are not messages.
func (s *served) connect(t testing.TB, hearing mapsock.Hearing) (*mapsock.Monitor, *net.UnixConn) {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := mapsock.NewMonitor(conn, hearing)
	if err != nil {
		t.Fatal(err)
	}
	_ = m.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = m.Close() })
	return m, conn
}

// next demands a message of a type.
func next(t testing.TB, m *mapsock.Monitor, want mapsock.Type) *mapsock.Message {
	t.Helper()
	message, err := m.Next()
	if err != nil {
		t.Fatalf("waiting for %s: %v", want, err)
	}
	if message.Type != want {
		t.Fatalf("%s, want %s", message, want)
	}
	return message
}

func send(t testing.TB, m *mapsock.Monitor, message *mapsock.Message) {
	t.Helper()
	if err := m.Send(message); err != nil {
		t.Fatal(err)
	}
}

func locator(rloc string) lisp.Locator {
	return lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), Priority: 1, Weight: 100, Reachable: true}
}

// to is a mapping with locators, that lives for a day.
func to(prefix string, rlocs ...string) dataplane.PutMapping {
	now := time.Now()
	mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: lisp.DefaultTTLMinutes}
	for _, r := range rlocs {
		mapping.Locators = append(mapping.Locators, locator(r))
	}
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: mapping, CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour)}}
}

func own(prefix string) dataplane.PutDatabase {
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: lisp.MustParsePrefix(prefix), Locators: lisp.LocatorSet{locator(ownRLOC.String())},
	}}
}

// ask is the message of an operation.
func ask(t testing.TB, seq uint32, operation dataplane.Operation) *mapsock.Message {
	t.Helper()
	m := &mapsock.Message{}
	if err := m.SetOperation(operation); err != nil {
		t.Fatal(err)
	}
	m.Seq = seq
	return m
}

func mustAppend(t testing.TB, b []byte, m *mapsock.Message) []byte {
	t.Helper()
	b, err := m.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// apply demands success.
func apply(t testing.TB, plane dataplane.Plane, operations ...dataplane.Operation) {
	t.Helper()
	for i, err := range plane.Apply(operations...) {
		if err != nil {
			t.Fatalf("operation %d, %T: %v", i, operations[i], err)
		}
	}
}

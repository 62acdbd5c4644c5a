// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"testing"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/mapsock"
)

// lasting is an engine that no fuzzer detaches.
type lasting struct{ *model.Engine }

func (lasting) Detach(context.Context) error { return nil }

// Whatever a client sends, the next message is answered.
func FuzzServer(f *testing.F) {
	for _, operation := range []dataplane.Operation{
		to("10.2.0.0/24", "192.0.2.2", "2001:db8::1"), own("10.1.0.0/24"), dataplane.Flush{MapCache: true, Database: true},
		dataplane.SetSettings{Settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds}},
	} {
		b := mustAppend(f, nil, ask(f, 1, operation))
		f.Add(append(b, b...))
		f.Add(b[:len(b)-4])
	}
	for _, m := range []*mapsock.Message{{Type: mapsock.TypeDump, Flags: mapsock.FlagAll}, {Type: mapsock.TypeGetCounters}, {Type: mapsock.TypeListen}, {Type: mapsock.TypeDetach}} {
		f.Add(mustAppend(f, nil, m))
	}
	f.Add([]byte{32, 0, 1, 1})
	s := New(lasting{model.New(model.Options{})}, Options{})
	f.Cleanup(func() { _ = s.Close() })
	path := socketPath(f)
	l, err := Listen(path, Access{UID: -1, GID: -1})
	if err != nil {
		f.Fatal(err)
	}
	go s.Serve(l) // ends with the server
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // that is the end of a connection
		}
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := mapsock.NewMonitor(conn, mapsock.DefaultHearing)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := conn.Write(b[:min(len(b), 2*mapsock.MaxDatagram)]); err != nil {
			t.Fatal(err)
		}
		const seq = 0xFEEDBEEF
		send(t, m, &mapsock.Message{Type: mapsock.TypeGetSettings, Seq: seq})
		for {
			got, err := m.Next()
			if err != nil {
				t.Fatal(err) // an answer that cannot be read, or none
			}
			if got.Type == mapsock.TypeGetSettings && got.Seq == seq {
				return
			}
		}
	})
}

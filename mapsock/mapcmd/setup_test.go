// SPDX-License-Identifier: Apache-2.0

package mapcmd

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/lisp"
	"loci/mapsock/server"
)

// at is when everything in these tests happens.
var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// served is an engine behind a mapping socket.
type served struct {
	engine *model.Engine
	path   string
}

func serve(t *testing.T) *served {
	t.Helper()
	now := func() time.Time { return at }
	s := &served{engine: model.New(model.Options{Now: now, Emit: func(packets.Emission) {}})}
	s.engine.Apply(dataplane.SetSettings{Settings: dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}},
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))},
		Wait:       dataplane.DefaultWaitBounds,
	}})
	directory, err := os.MkdirTemp("", "mc") // the address of a socket has 108 octets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	s.path = filepath.Join(directory, "map.sock")
	l, err := server.Listen(s.path, server.Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	server := server.New(s.engine, server.Options{Now: now})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// send lets a host of the site send an IPv4 packet without payload.
func (s *served) send(source, destination string) {
	from, to := netip.MustParseAddr(source).As4(), netip.MustParseAddr(destination).As4()
	packet := append([]byte{0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 59, 0, 0}, from[:]...)
	packet = append(packet, to[:]...)
	var sum uint32
	for i := 0; i < len(packet); i += 2 {
		sum += uint32(packet[i])<<8 | uint32(packet[i+1])
	}
	sum = sum&0xFFFF + sum>>16
	sum = ^(sum&0xFFFF + sum>>16)
	packet[10], packet[11] = byte(sum>>8), byte(sum)
	s.engine.Send("site0", packet)
}

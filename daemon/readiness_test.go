// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// notified is a supervisor's socket; what came is read once work is done.
func notified(t *testing.T) (received func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() (list []string) {
		b := make([]byte, 4096)
		for {
			_ = socket.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			n, err := socket.Read(b)
			if err != nil {
				return list
			}
			list = append(list, string(b[:n]))
		}
	}
}

func isExtended(message, by string) bool {
	return strings.HasPrefix(message, "EXTEND_TIMEOUT_USEC="+moreTime) && strings.Contains(message, by)
}

// TestStartIsExtendedDuringLongWork: while it goes on, not after it, and not once the daemon has started.
func TestStartIsExtendedDuringLongWork(t *testing.T) {
	received := notified(t)
	s := supervisor{every: 5 * time.Millisecond}
	failed := errors.New("failed")
	if err := s.during("conversion", func() error { time.Sleep(60 * time.Millisecond); return failed }); err != failed {
		t.Errorf("%v", err)
	}
	if list := received(); len(list) < 2 || !isExtended(list[0], "conversion") || !isExtended(list[len(list)-1], "conversion") {
		t.Errorf("during work: %q", list)
	}
	if list := received(); len(list) > 0 {
		t.Errorf("after it: %q", list)
	}
	s.start()
	s.atWork("conversion")
	if list := received(); len(list) != 1 || !strings.HasPrefix(list[0], "READY=1") {
		t.Errorf("once started: %q", list)
	}
}

// TestStartIsExtendedByEachPieceOfTheMapCache that is taken over.
func TestStartIsExtendedByEachPieceOfTheMapCache(t *testing.T) {
	received := notified(t)
	plane := model.New(model.Options{})
	const pieces = 3
	for i := range pieces * adoptPiece {
		p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
		m := lisp.Mapping{Prefix: p, Action: lisp.ActionDrop, TTLMinutes: 10}
		plane.Apply(dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: m, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}})
	}
	config := control.Config{LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))}, ITR: &control.ITRConfig{}}
	node, err := control.New(config, time.Now(), func(b []byte) { clear(b) })
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{plane: plane, log: slog.New(slog.DiscardHandler)}
	d.adoptMapCache(node, time.Now())
	if list := received(); len(list) < pieces || !isExtended(list[0], "mappings") {
		t.Errorf("%d pieces: %q", pieces, list)
	}
}

// SPDX-License-Identifier: Apache-2.0

package remoteplane

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/model"
	mapsockserver "loci/mapsock/server"
)

// remoteWatch bounds what these tests wait for.
const remoteWatch = 20 * time.Second

// servePlane offers an engine at a socket until the function is called.
func servePlane(t *testing.T, path string) (end func()) {
	t.Helper()
	return serveEngine(t, path, model.New(model.Options{}))
}

func serveEngine(t *testing.T, path string, engine dataplane.Plane) (end func()) {
	t.Helper()
	l, err := mapsockserver.Listen(path, mapsockserver.Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := mapsockserver.New(engine, mapsockserver.Options{})
	go s.Serve(l) // ends with the server
	return func() { _ = s.Close() }
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(remoteWatch); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// TestRenewedIsToldLateAndAgain: a data plane that came back before anybody could tell
// it anything is told when somebody can, and until that succeeds.
func TestRenewedIsToldLateAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	end := servePlane(t, path)
	p, err := Dial(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first := p.client.Load()
	end()
	end = servePlane(t, path)
	eventually(t, "connected anew", func() bool { return p.client.Load() != first })
	eventually(t, "noticed that the plane was not told", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.untold })
	var told atomic.Int32
	p.WhenRenewed(func() error {
		if told.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	eventually(t, "told until it succeeded", func() bool { return told.Load() == 3 })
	// The next time it is told at once, once.
	second := p.client.Load()
	end()
	defer servePlane(t, path)()
	eventually(t, "told the next one", func() bool { return p.client.Load() != second && told.Load() == 4 })
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
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
	p, err := dialPlane(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first := p.client.Load()
	end()
	end = servePlane(t, path)
	eventually(t, "connected anew", func() bool { return p.client.Load() != first })
	eventually(t, "noticed that nobody told", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.untold })
	var told atomic.Int32
	p.whenRenewed(func() error {
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

// observantEngine knows of every path what its RLOC's last octet says.
type observantEngine struct{ *model.Engine }

func (observantEngine) PathMTU(r lisp.RLOC) (octets int, learnt bool) {
	last := r.Addr().AsSlice()[3]
	return 1400 + int(last), last%2 == 0
}

func (observantEngine) EchoNonce(r lisp.RLOC) dataplane.EchoState {
	if last := r.Addr().AsSlice()[3]; last%3 == 0 {
		return dataplane.EchoState{AskedAt: time.Unix(1700000000+int64(last), 0), MissingAt: time.Unix(1700000001, 0)}
	}
	return dataplane.EchoState{}
}

// What another process' data plane knows of paths is shown as that of one's own is.
func TestPathsOfARemotePlane(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	engine := observantEngine{model.New(model.Options{})}
	end := serveEngine(t, path, engine)
	defer end()
	remote, err := dialPlane(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	statesOf := func(d *daemon) map[lisp.RLOC]*api.LocatorState {
		states := map[lisp.RLOC]*api.LocatorState{}
		for i := range 100 { // more than fit into a message
			rloc := lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
			states[rloc] = &api.LocatorState{RLOC: rloc, Local: i == 0}
		}
		d.addPaths(states)
		return states
	}
	far, near := statesOf(&daemon{engine: remote}), statesOf(&daemon{engine: engine})
	if !reflect.DeepEqual(far, near) {
		t.Errorf("from afar %+v, from near %+v", far, near)
	}
	third := far[lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, 3}))]
	if third.PathMTU != 1403 || third.EchoNonce == nil || !third.EchoNonce.Fails {
		t.Errorf("%+v", third)
	}
	end()
	_ = statesOf(&daemon{engine: remote}) // who has gone is asked in vain
}

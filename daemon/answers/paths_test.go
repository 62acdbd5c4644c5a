// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/daemon/remoteplane"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
	mapsockserver "loci/mapsock/server"
)

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
	l, err := mapsockserver.Listen(path, mapsockserver.Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := mapsockserver.New(engine, mapsockserver.Options{})
	go s.Serve(l) // ends with the server
	end := func() { _ = s.Close() }
	defer end()
	remote, err := remoteplane.Dial(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	byRelay, err := lisp.NewPath(lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")), lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.3")))
	if err != nil {
		t.Fatal(err)
	}
	statesOf := func(a *Answers) map[lisp.Path]*api.LocatorState {
		states := map[lisp.Path]*api.LocatorState{}
		for i := range 100 { // more than fit into a message
			rloc := lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
			states[lisp.PathTo(rloc)] = &api.LocatorState{RLOC: rloc, Local: i == 0}
		}
		states[byRelay] = locatorState(&lisp.Locator{RLOC: byRelay.RLOC, Behind: byRelay.Behind, Next: 1}, false)
		a.addPaths(states)
		return states
	}
	far, near := statesOf(&Answers{Engine: remote}), statesOf(&Answers{Engine: engine})
	if !reflect.DeepEqual(far, near) {
		t.Errorf("from afar %+v, from near %+v", far, near)
	}
	for _, path := range []lisp.Path{lisp.PathTo(byRelay.Hop(1)), byRelay} { // of a path, the hop counts that packets go to
		if third := far[path]; third.PathMTU == nil || *third.PathMTU != 1403 || third.EchoNonce == nil || !third.EchoNonce.Fails {
			t.Errorf("%s: %+v", path, third)
		}
	}
	end()
	_ = statesOf(&Answers{Engine: remote}) // who has gone is asked in vain
}

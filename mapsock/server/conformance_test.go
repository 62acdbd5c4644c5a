// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/flows"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/lisp"
	"loci/mapsock"
)

// An engine behind a socket is an engine as any other.
func TestConformanceOverTheSocket(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Harness { return newHarness(t, remote) })
}

// Flows are bound through the socket. How many there may be is the engine's.
func TestFlows(t *testing.T) {
	flows.Run(t, func(t testing.TB) conformance.Harness { return newHarness(t, remote) }, flows.Limited)
}

// The engine as the process sees it that serves it is one, too.
func TestConformanceBesideTheSocket(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Harness { return newHarness(t, local) })
}

const mappingLimit = 300

// harness is the model engine with a network in memory, and a plane in front of it.
type harness struct {
	engine *model.Engine
	plane  dataplane.Plane

	mu   sync.Mutex
	now  time.Time
	core [][]byte
	site [][]byte
}

func remote(t testing.TB, s *Server) dataplane.Plane {
	path := socketPath(t)
	l, err := Listen(path, Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l) // ends with the server
	c, err := mapsock.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func local(_ testing.TB, s *Server) dataplane.Plane { return s.Plane() }

func newHarness(t testing.TB, front func(testing.TB, *Server) dataplane.Plane) *harness {
	t.Helper()
	h := &harness{now: time.Now()}
	h.engine = model.New(model.Options{
		Now: h.clock, Emit: h.emit, Mappings: mappingLimit,
		PathMTU: func(lisp.RLOC) int { return conformance.PathMTU },
	})
	s := New(h.engine, Options{Now: h.clock})
	t.Cleanup(func() { _ = s.Close() })
	h.plane = front(t, s)
	return h
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) emit(e packets.Emission) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Way == packets.ToSite || e.Way == packets.ToStack || e.Way == packets.Natively && conformance.IsOfSite(e.Packet) {
		h.site = append(h.site, e.Packet)
		return
	}
	h.core = append(h.core, e.Packet)
}

func (h *harness) Plane() dataplane.Plane { return h.plane }
func (h *harness) MappingLimit() int      { return mappingLimit }
func (h *harness) Pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *harness) Settings() dataplane.Settings {
	return dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}},
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)},
		Wait:       dataplane.DefaultWaitBounds,
	}
}

func (h *harness) Raise(event dataplane.Event) { h.engine.Raise(event) }

func (h *harness) SendFromSite(_ testing.TB, packet []byte) { h.engine.Send("site0", packet) }
func (h *harness) SendFromCore(_ testing.TB, packet []byte) { h.engine.Send("core0", packet) }

func (h *harness) ReceiveAtCore(testing.TB) ([]byte, bool) { return h.take(&h.core) }
func (h *harness) ReceiveAtSite(testing.TB) ([]byte, bool) { return h.take(&h.site) }

func (h *harness) take(from *[][]byte) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*from) == 0 {
		return nil, false
	}
	packet := (*from)[0]
	*from = (*from)[1:]
	return packet, true
}

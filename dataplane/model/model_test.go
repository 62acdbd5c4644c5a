// SPDX-License-Identifier: Apache-2.0

package model

import (
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

const testMappings = 300

// harness is an engine whose emissions are kept by side, and whose clock is moved
// by hand.
type harness struct {
	engine *Engine

	mu         sync.Mutex
	now        time.Time
	core, site [][]byte
}

func newHarness(testing.TB) conformance.Harness {
	h := &harness{now: time.Now()}
	h.engine = New(Options{Now: h.clock, Emit: h.emit, Mappings: testMappings})
	return h
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) emit(e Emission) {
	h.mu.Lock()
	defer h.mu.Unlock()
	toSite := e.Way == ToSite || e.Way == ToStack || e.Interface == "core0"
	if toSite {
		h.site = append(h.site, e.Packet)
		return
	}
	h.core = append(h.core, e.Packet)
}

func (h *harness) Plane() dataplane.Plane { return h.engine }
func (h *harness) MappingLimit() int      { return testMappings }

func (h *harness) Settings() dataplane.Settings {
	s := h.engine.Settings()
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

func (h *harness) SendFromSite(_ testing.TB, packet []byte) { h.engine.Send("site0", packet) }
func (h *harness) SendFromCore(_ testing.TB, packet []byte) { h.engine.Send("core0", packet) }

func (h *harness) ReceiveAtCore(testing.TB) ([]byte, bool) { return h.take(&h.core) }
func (h *harness) ReceiveAtSite(testing.TB) ([]byte, bool) { return h.take(&h.site) }

func (h *harness) take(queue *[][]byte) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*queue) == 0 {
		return nil, false
	}
	packet := (*queue)[0]
	*queue = (*queue)[1:]
	return packet, true
}

func (h *harness) Pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }

// SPDX-License-Identifier: Apache-2.0

// The differential test: this engine and the kernel's against package forward with the model's tables
// around it.
//
// For longer, or for one seed that failed: go test ./dataplane/user -run TestDifferential -rounds 1000, -rounds 1 -seed 77.

package user

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/conformance/differential"
	"loci/dataplane/conformance/links"
	"loci/dataplane/kernel"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

var (
	differentialRounds = flag.Int("rounds", 40, "how many seeds TestDifferential has")
	differentialSeed   = flag.Uint64("seed", 1, "the first seed of TestDifferential")
)

func TestDifferential(t *testing.T) {
	differential.Contest{
		Reference: newReference(), Engines: map[string]conformance.Harness{"user": newSegmentedHarness(t)},
		First: *differentialSeed, Seeds: *differentialRounds,
	}.Run(t)
}

// TestDifferentialOfTheKernel is the same for the kernel's engine, at tc and with XDP in front of it. Its programs count each time
// that a packet comes back from the queue. What waited is not admitted anew.
func TestDifferentialOfTheKernel(t *testing.T) {
	except := []string{"released"}
	differential.Contest{
		Reference: newReference(), KeepsDatabase: true, Except: map[string][]string{"tc": except, "XDP": except},
		Engines: map[string]conformance.Harness{"tc": newKernelHarness(t, dataplane.HookTC), "XDP": newKernelHarness(t, dataplane.HookXDP)},
		First:   *differentialSeed, Seeds: *differentialRounds,
	}.Run(t)
}

// newSegmentedHarness has the host cut what the engine joined, and finish it: both ends read single packets.
func newSegmentedHarness(t testing.TB) conformance.Harness {
	h := newHarness(t).(*engineHarness)
	for _, link := range []string{links.Site, links.Core} {
		must(t, h.Router.SetOffload(link, testnet.TSO, false))
		must(t, h.Router.SetOffload(link, testnet.TxChecksum, false))
	}
	return h
}

// kernelHarness is the kernel's engine as a conformance.Harness.
type kernelHarness struct {
	*links.Network
	engine *kernel.Engine
	hook   dataplane.Hook
}

func newKernelHarness(t testing.TB, hook dataplane.Hook) *kernelHarness {
	h := &kernelHarness{Network: links.New(t), hook: hook}
	instance := strings.ReplaceAll(h.Network.Router.Name(), ".", "_")
	must(t, h.Network.Router.Do(func() (err error) {
		h.engine, err = kernel.Open(kernel.Options{Instance: instance, MappingLimit: conformanceMappings, Logger: slog.New(slog.DiscardHandler)})
		return err
	}))
	t.Cleanup(func() {
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
		_ = os.RemoveAll(pins.DefaultDirectory + "/" + instance)
	})
	return h
}

func (h *kernelHarness) Plane() dataplane.Plane { return h.engine }

func (h *kernelHarness) Pass(d time.Duration) { time.Sleep(d) }

func (h *kernelHarness) Settings() dataplane.Settings {
	return h.Network.Settings(h.engine.Settings(), h.hook)
}

// reference is the model with a host around it that counts the hop of what passes it.
type reference struct {
	engine     *model.Engine
	core, site [][]byte
	passing    map[string]bool // packets as they came that were in no tunnel
}

func newReference() *reference {
	r := &reference{passing: map[string]bool{}}
	r.engine = model.New(model.Options{Emit: r.emit, Mappings: conformanceMappings})
	return r
}

func (r *reference) emit(e packets.Emission) {
	if e.Way == packets.Natively && r.passing[string(e.Packet)] {
		h, err := forward.ParseHeader(e.Packet)
		if err != nil || h.TTL < 2 {
			return
		}
		forward.SetMarks(e.Packet, h.Family, h.TTL-1, h.TrafficClass)
	}
	if e.Way == packets.ToStack {
		return // its hops are at an end, of which the stack tells its source
	}
	if e.Way == packets.ToSite || conformance.IsOfSite(e.Packet) {
		r.site = append(r.site, e.Packet)
		return
	}
	r.core = append(r.core, e.Packet)
}

func (r *reference) Plane() dataplane.Plane { return r.engine }
func (r *reference) Pass(d time.Duration)   { time.Sleep(d) }

func (r *reference) Settings() dataplane.Settings {
	s := r.engine.Settings()
	s.Interfaces = []dataplane.Interface{{Name: links.Site, Side: dataplane.SideSite}, {Name: links.Core, Side: dataplane.SideCore}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

func (r *reference) SendFromSite(_ testing.TB, packet []byte) { r.send(links.Site, packet) }
func (r *reference) SendFromCore(_ testing.TB, packet []byte) { r.send(links.Core, packet) }

func (r *reference) send(from string, packet []byte) {
	r.passing[string(packet)] = true
	r.engine.Send(from, slices.Clone(packet)) // the others get it as well
}

func (r *reference) ReceiveAtCore(testing.TB) ([]byte, bool) { return next(&r.core) }
func (r *reference) ReceiveAtSite(testing.TB) ([]byte, bool) { return next(&r.site) }

func next(queue *[][]byte) ([]byte, bool) {
	if len(*queue) == 0 {
		return nil, false
	}
	packet := (*queue)[0]
	*queue = (*queue)[1:]
	return packet, true
}

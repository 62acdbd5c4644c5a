// SPDX-License-Identifier: Apache-2.0

package lispers

// Engine against Server, back to back: what Loci's control plane says becomes JSON,
// becomes operations of an engine of ours, and packets show whether it came through.
// The conformance suite runs on the pair, but for what the interface cannot express,
// which Lacks declares.

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/lisp"
)

const (
	testMappings = 300
	testInterval = 10 * time.Millisecond
	// watchdog bounds what a test waits for; no test expects it to be used up.
	watchdog = time.Minute
)

// excluded says which tests of the suite ask for what the interface cannot express.
var excluded = map[string]Lack{
	"WaitingPacketsGoNatively":         LacksActions,
	"WaitingGoesOnUnderSendMapRequest": LacksActions,
	"Actions":                          LacksActions,
	"UseOfNegativeMappings":            LacksActions,
	"CountersMove":                     LacksActions, // its native packet
	"NoLocatorIsUp":                    LacksActions, // its reason for the drop
	"LocatorsChangeTheirKind":          LacksActions, // the same
	"DropsAreTold":                     LacksActions, // which say what the sources are told
	"WaitingIsBoundedInPackets":        LacksSettings,
	"WaitingIsBoundedInOctets":         LacksSettings,
	"WaitingIsBoundedInTime":           LacksSettings,
	"MissPolicies":                     LacksSettings,
	"AFloodLeavesRoom":                 LacksSettings,
	"HeadersTell":                      LacksSettings,
	"HeadersOnThePublicInternet":       LacksSettings,
	"HeadersAreHeeded":                 LacksSettings,
	"StatusBitsOfAnotherSet":           LacksSettings,
	"EchoNonce":                        LacksSettings,
	"SourceCheck":                      LacksSettings,
	"Gleaning":                         LacksSettings,
	"StatusBitsPause":                  LacksSettings,
	"ListsDeny":                        LacksSettings,
	"RLOCsInHoles":                     LacksSettings,
	"ListsDenyRelayed":                 LacksSettings,
	"RegisteredIsRelayed":              LacksSettings, // whose entries are registered
	"PITRHasTheInstanceOfTheCore":      LacksSettings,
	"RelayedPacketsAreNotAnswered":     LacksSettings,
	"ListsOfProxies":                   LacksSettings,
	"ListsAndPaths":                    LacksSettings,
	"MissPoliciesOfInstances":          LacksSettings,
	"MissForms":                        LacksSettings,
	"HandedPacketsArrive":              LacksSettings,
	"HandedPacketsAreBounded":          LacksSettings,
	"RTRRelays":                        LacksSettings,
	"RTRKeepsTheInstance":              LacksSettings,
	"RelayedHeadersConcernTheSite":     LacksSettings,
	"RelayedPacketsWait":               LacksSettings,
	"RelayedPacketsGoNatively":         LacksSettings,
	"RelayedPacketsFollowPaths":        LacksSettings,
	"PathsByNumber":                    LacksSettings,
	"PathsBySource":                    LacksSettings,
	"PathsAreNumbered":                 LacksSettings,
	"RelayedPacketsTooBig":             LacksSettings,
	"PETRForwards":                     LacksSettings,
	"PITREncapsulates":                 LacksSettings,
	"TwoLayers":                        LacksSettings,
	"ControlPacketsBecomeEvents":       LacksSettings,
	"ControlPacketsOfStrangers":        LacksSettings,
	"ControlPacketsOfAllNodes":         LacksSettings,
	"ControlPacketsOfARelay":           LacksSettings,
	"ControlPacketsAreBounded":         LacksSettings,
	"TwoLayersResolve":                 LacksSettings,
	"LoopsOfMappings":                  LacksSettings,
	"LookupHops":                       LacksSettings,
	"DecapsulatedTwice":                LacksSettings,
}

// directory is a short one: names of Unix sockets are bounded.
func directory(t testing.TB) string {
	t.Helper()
	d, err := os.MkdirTemp("", "lispers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	return d
}

// pair is an Engine whose data plane is a Server over the model.
type pair struct {
	engine *Engine
	server *Server
	model  *model.Engine

	mu         sync.Mutex
	now        time.Time
	core, site [][]byte
}

var coreSettings = dataplane.Settings{
	Interfaces: []dataplane.Interface{{Name: "core0", Side: dataplane.SideCore}},
	LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)},
	Wait:       dataplane.DefaultWaitBounds,
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{now: time.Now()}
	p.model = model.New(model.Options{Now: p.clock, Emit: p.emit})
	d := directory(t)
	p.server = newTestServer(t, d, p.model)
	var err error
	p.engine, err = OpenEngine(EngineOptions{Directory: d, Mappings: testMappings, WatchInterval: testInterval})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.engine.Close() })
	serve(t, p.server)
	eventually(t, "both ends see each other", func() bool {
		return p.engine.Connected() && p.server.Status().Connected && p.server.tally.value(restarts) > 0 && p.engine.tally.value(restarts) > 0
	})
	return p
}

func newTestServer(t testing.TB, d string, plane dataplane.Plane) *Server {
	t.Helper()
	s, err := NewServer(plane, ServerOptions{
		Directory: d, Settings: coreSettings, NoLocators: lisp.ActionDrop, StatisticsInterval: testInterval, WatchInterval: testInterval,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serve runs a Server until the test ends.
func serve(t testing.TB, s *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// settled waits until the data plane has done what the control plane said: the
// interface has no word for that (LacksCompletion).
func (p *pair) settled(t testing.TB) {
	t.Helper()
	eventually(t, "the data plane is told", func() bool {
		return p.engine.idle() && p.server.tally.value(messagesReceived) >= p.engine.tally.value(messagesSent)
	})
}

func (p *pair) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *pair) emit(m packets.Emission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Way == packets.ToSite || m.Way == packets.ToStack || m.Interface == "core0" {
		p.site = append(p.site, m.Packet)
		return
	}
	p.core = append(p.core, m.Packet)
}

// Plane is the Engine. Its counters are read at the far plane, because the interface
// has none for most of them (LacksCounters).
func (p *pair) Plane() dataplane.Plane { return farCounters{p.engine, p.model} }

type farCounters struct {
	*Engine
	far *model.Engine
}

func (f farCounters) Counters() dataplane.Counters { return f.far.Counters() }

func (p *pair) MappingLimit() int { return testMappings }

func (p *pair) Settings() dataplane.Settings {
	s := p.engine.Settings()
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}
	s.LocalRLOCs = coreSettings.LocalRLOCs
	return s
}

func (p *pair) SendFromSite(t testing.TB, packet []byte) {
	p.settled(t)
	p.model.Send("site0", packet)
}

func (p *pair) SendFromCore(t testing.TB, packet []byte) {
	p.settled(t)
	p.model.Send("core0", packet)
}

func (p *pair) ReceiveAtCore(t testing.TB) ([]byte, bool) { return p.take(t, &p.core) }
func (p *pair) ReceiveAtSite(t testing.TB) ([]byte, bool) { return p.take(t, &p.site) }

func (p *pair) take(t testing.TB, queue *[][]byte) ([]byte, bool) {
	p.settled(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*queue) == 0 {
		return nil, false
	}
	packet := (*queue)[0]
	*queue = (*queue)[1:]
	return packet, true
}

func (p *pair) WithoutSourcePorts() {}

func (p *pair) Pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// TestConformance leaves out what is declared, and nothing that is not in the suite.
func TestConformance(t *testing.T) {
	var mu sync.Mutex
	met := map[string]bool{}
	t.Cleanup(func() { expectExcluded(t, met) }) // when all tests of the suite are over
	conformance.Run(t, func(tb testing.TB) conformance.Harness {
		tb.Helper()
		name := tb.Name()[strings.LastIndexByte(tb.Name(), '/')+1:]
		if lack, out := excluded[name]; out {
			mu.Lock()
			met[name] = true
			mu.Unlock()
			tb.Skipf("the interface lacks %s", lack)
		}
		return newPair(tb)
	})
}

// expectExcluded wants all that is left out to be in the suite, and to be declared.
func expectExcluded(t *testing.T, met map[string]bool) {
	t.Helper()
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // a part of the suite was asked for
	}
	for name, lack := range excluded {
		if !met[name] {
			t.Errorf("the suite has no test %s to leave out", name)
		}
		if !slices.Contains(Lacks(), lack) {
			t.Errorf("%s is left out for what is not declared: %s", name, lack)
		}
	}
}

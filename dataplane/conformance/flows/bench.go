// SPDX-License-Identifier: Apache-2.0

package flows

// The suite, and the engine that a test of it works on. Nothing here knows what an engine should do.

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

// Reopening is a Harness whose engine keeps its tables outside the process: Reopen closes it and opens it again.
type Reopening interface{ Reopen(t testing.TB) }

type test struct {
	name string
	run  func(*bench)
}

// suite are tests in groups. Those of a group have an engine together, which takes longer to make than they do.
var suite = map[string][]test{
	"Tables": {{"ReadBack", readBack}, {"Refused", refused}, {Limited, limited}},
	"Paths": {
		{"TakeTheirPath", takeTheirPath}, {"TakeExplicitPaths", takeExplicitPaths},
		{"WorsePriorities", worsePriorities},
		{"LeaveAPathThatIsDown", leaveAPathThatIsDown}, {"OtherLocators", otherLocators},
		{"ToldApart", toldApart},
		{"Use", useIsNoted}, {"Relays", relaysObeyBindings},
	},
	"Subflows": {
		{"Wait", subflowsThatWait}, {"Told", subflowsAreTold}, {"Ends", endsOfSubflowsAreTold},
		{"Relays", subflowsOfRelays},
	},
	"Restart": {{"OutliveTheProcess", outliveTheProcess}},
}

// Limited is the test that fills the table with flows, which takes seconds.
const Limited = "Limited"

// Run runs the suite, several groups at a time, but for tests of these names: those that another run shows.
func Run(t *testing.T, factory conformance.Factory, except ...string) {
	for name, tests := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of them wait more than they work
			b := newBench(t, factory)
			for _, test := range tests {
				if slices.Contains(except, test.name) {
					continue
				}
				ok := t.Run(test.name, func(t *testing.T) {
					b.begin(t)
					test.run(b)
				})
				if !ok {
					return // its packets may still be on their way
				}
			}
		})
	}
}

// bench is a harness for a test.
type bench struct {
	*testing.T
	conformance.Harness
	plane dataplane.Plane
}

func newBench(t *testing.T, factory conformance.Factory) *bench {
	t.Helper()
	h := factory(t)
	return &bench{T: t, Harness: h, plane: h.Plane()}
}

var siteDatabase = [...]string{"10.1.0.0/24", "2001:db8:1::/64"}

// begin puts the settings in force and the site's EIDs into the Database, and nothing else.
func (b *bench) begin(t *testing.T) {
	t.Helper()
	b.T = t
	b.apply(dataplane.Flush{MapCache: true, Database: true, Flows: true},
		dataplane.SetSettings{Settings: b.Settings()})
	for _, prefix := range siteDatabase {
		b.apply(b.database(prefix))
	}
	for _, peer := range conformance.PeerRLOCs {
		b.apply(state(peer.String(), dataplane.LocatorUp))
	}
	for len(b.plane.Events()) > 0 {
		<-b.plane.Events()
	}
}

// apply demands success.
func (b *bench) apply(operations ...dataplane.Operation) {
	b.Helper()
	for i, err := range b.plane.Apply(operations...) {
		if err != nil {
			b.Fatalf("operation %d, %T: %v", i, operations[i], err)
		}
	}
}

// settings changes the settings in force.
func (b *bench) settings(change func(*dataplane.Settings)) {
	b.Helper()
	s := b.plane.Settings()
	change(&s)
	b.apply(dataplane.SetSettings{Settings: s})
}

func (b *bench) database(prefix string) dataplane.PutDatabase {
	own := []lisp.Locator{locator(conformance.OwnRLOC4.String(), 1), locator(conformance.OwnRLOC6.String(), 1)}
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: lisp.MustParsePrefix(prefix), Locators: b.locators(own),
	}}
}

func (b *bench) locators(locators []lisp.Locator) lisp.LocatorSet {
	b.Helper()
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// mapping is a positive mapping.
func (b *bench) mapping(prefix string, locators ...lisp.Locator) dataplane.PutMapping {
	b.Helper()
	m := lisp.Mapping{
		Prefix: lisp.MustParsePrefix(prefix), Locators: b.locators(locators),
		TTLMinutes: lisp.DefaultTTLMinutes,
	}
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: m, CreatedAt: time.Now(), Static: true}}
}

func locator(rloc string, priority uint8) lisp.Locator { return by(pathTo(rloc), priority) }

// by is a locator of that path, whose packets go to its first hop.
func by(path lisp.Path, priority uint8) lisp.Locator {
	l := lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Priority: priority, Weight: 100, Reachable: true}
	for i := range path.Len() {
		if !path.IsPlain() {
			l.Bits[i] = lisp.HopExplicit
		}
	}
	return l
}

// pathTo is a path; it need not be one that a packet can take.
func pathTo(hops ...string) lisp.Path {
	rlocs := make([]lisp.RLOC, len(hops))
	for i, text := range hops {
		if at, err := netip.ParseAddrPort(text); err == nil {
			rlocs[i] = lisp.RLOCFromAddr(at.Addr()).WithPort(at.Port())
			continue
		}
		rlocs[i] = lisp.RLOCFromAddr(netip.MustParseAddr(text))
	}
	path, _ := lisp.NewPath(rlocs...)
	return path
}

// bind binds the flow of a packet.
func bind(p packet, path lisp.Path) dataplane.PutFlow {
	return dataplane.PutFlow{Flow: p.lispFlow(), Path: path}
}

func state(rloc string, s dataplane.LocatorState) dataplane.PutLocatorState {
	return dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), State: s}
}

// patience bounds eventually.
const patience = 5 * time.Second

// eventually waits for what an engine does on its own account.
func (b *bench) eventually(what string, condition func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("still not: %s; counters %+v", what, b.plane.Counters())
		}
	}
}

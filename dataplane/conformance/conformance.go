// SPDX-License-Identifier: Apache-2.0

// Package conformance is the suite that every engine of dataplane.Plane passes:
// the semantics that package dataplane writes down, seen from both sides, as
// control plane and as the hosts whose packets it forwards (RFC 9300 s.4, s.5). It
// is imported by tests alone and knows no engine.
//
// The engine is a router between a site and a core:
//
//	hosts 10.1.0.0/24, 2001:db8:1::/64  —  site [router] core  —  peers
//
// Its RLOCs are OwnRLOC4 and OwnRLOC6. All PeerRLOCs are reachable through the core
// with PathMTU octets, and so is everything else that is no EID of the site, which
// is what natively forwarded packets need.
package conformance

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// The network around an engine under test.
var (
	OwnRLOC4 = netip.MustParseAddr("192.0.2.1")
	OwnRLOC6 = netip.MustParseAddr("2001:db8:ff00::1")
	// PeerRLOCs are the routers of other sites.
	PeerRLOCs = []netip.Addr{
		netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3"),
		netip.MustParseAddr("2001:db8:ff00::2"), netip.MustParseAddr("2001:db8:ff00::3"),
	}
	// SiteHosts are the hosts of the site.
	SiteHosts = []netip.Addr{netip.MustParseAddr("10.1.0.10"), netip.MustParseAddr("2001:db8:1::10")}
)

// PathMTU is what the core carries.
const PathMTU = 1500

// IsOfSite reports whether routes lead a packet to the site: for a Harness whose engine does not route.
func IsOfSite(packet []byte) bool {
	p, err := decode(packet)
	if err != nil {
		return false
	}
	_, to := addresses(p)
	return netip.MustParsePrefix(siteDatabase4).Contains(to) || netip.MustParsePrefix(siteDatabase6).Contains(to)
}

// Harness is an engine under test with a network around it.
type Harness interface {
	// Plane is the engine, whose tables are empty at first.
	Plane() dataplane.Plane
	// Settings are those the suite begins with: a site interface, a core interface,
	// and the own RLOCs, the rest as the engine's default.
	Settings() dataplane.Settings
	// SendFromSite sends an IP packet of a host to the router.
	SendFromSite(t testing.TB, packet []byte)
	// SendFromCore sends an IP packet of a peer to the router.
	SendFromCore(t testing.TB, packet []byte)
	// ReceiveAtCore returns the next IP packet that left towards the core: outer
	// packets and natively forwarded ones. It gives up after patience of its own;
	// packets that are no business of the suite, such as neighbour discovery, are
	// left out.
	ReceiveAtCore(t testing.TB) (packet []byte, ok bool)
	// ReceiveAtSite returns the next IP packet that left towards the site.
	ReceiveAtSite(t testing.TB) (packet []byte, ok bool)
	// Pass lets time pass.
	Pass(d time.Duration)
}

// Limited is a Harness whose engine holds so few mappings that the suite can fill it.
type Limited interface{ MappingLimit() int }

// Raiser is a Harness that can make its engine raise an event of any kind, as if
// packets had caused it.
type Raiser interface{ Raise(dataplane.Event) }

// Shrinking is a Harness whose core can carry less than PathMTU, which no ICMP tells.
type Shrinking interface {
	SetCoreMTU(t testing.TB, octets int)
}

// Factory makes a harness and closes it by t.Cleanup.
type Factory func(t testing.TB) Harness

// test is a test of the suite.
type test struct {
	name string
	run  func(*bench)
}

var suite = []test{
	{"ApplyReportsEachOperation", applyReportsEachOperation},
	{"MappingsReadBack", mappingsReadBack},
	{"ReplacementKeepsUse", replacementKeepsUse},
	{"UseOfNegativeMappings", useOfNegativeMappings},
	{"DatabaseReadsBackInOrder", databaseReadsBackInOrder},
	{"DatabaseNeedsALocalLocator", databaseNeedsALocalLocator},
	{"OtherEIDsAreUnsupported", otherEIDsAreUnsupported},
	{"LocatorStatesReadBack", locatorStatesReadBack},
	{"SettingsReadBack", settingsReadBack},
	{"PathsReadBack", pathsReadBack},
	{"PathsThatAreRefused", pathsThatAreRefused},
	{"PathsGoToTheNextHop", pathsGoToTheNextHop},
	{"PathsHaveStatesOfTheirOwn", pathsHaveStatesOfTheirOwn},
	{"LocatorsChangeTheirKind", locatorsChangeTheirKind},
	{"PortsTellLocatorsApart", portsTellLocatorsApart},
	{"SourcePortsReadBack", sourcePortsReadBack},
	{"SourcePortsOfFlows", sourcePortsOfFlows},
	{"SourcePortsOfOneLocator", sourcePortsOfOneLocator},
	{"SourcePortsOfProtocols", sourcePortsOfProtocols},
	{"SourcePortsOfRelays", sourcePortsOfRelays},
	{"FlushEmptiesTables", flushEmptiesTables},
	{"TheTableIsLimited", theTableIsLimited},
	{"EditingWhileReading", editingWhileReading},
	{"UseFromManyGoroutines", useFromManyGoroutines},
	{"CloseTwice", closeTwice},
	{"LongestMatch", longestMatch},
	{"PrefixesInAllOrders", prefixesInAllOrders},
	{"InstancesAreApart", instancesAreApart},
	{"FamilyPairs", familyPairs},
	{"SourceDecides", sourceDecides},
	{"DeletedMappingMisses", deletedMappingMisses},
	{"MissRaisesAnEvent", missRaisesAnEvent},
	{"WaitingPacketsAreDelivered", waitingPacketsAreDelivered},
	{"WaitingPacketsOfManyFlows", waitingPacketsOfManyFlows},
	{"WaitingPacketsMeetANegativeMapping", waitingPacketsMeetANegativeMapping},
	{"WaitingPacketsGoNatively", waitingPacketsGoNatively},
	{"WaitingGoesOnUnderSendMapRequest", waitingGoesOnUnderSendMapRequest},
	{"WaitingIsBoundedInPackets", waitingIsBoundedInPackets},
	{"WaitingIsBoundedInOctets", waitingIsBoundedInOctets},
	{"WaitingIsBoundedInTime", waitingIsBoundedInTime},
	{"AFloodLeavesRoom", aFloodLeavesRoom},
	{"MissPolicies", missPolicies},
	{"MissPoliciesOfInstances", missPoliciesOfInstances},
	{"MissForms", missForms},
	{"HandedPacketsArrive", handedPacketsArrive},
	{"HandedPacketsAreBounded", handedPacketsAreBounded},
	{"ExpiredMappingsAreTold", expiredMappingsAreTold},
	{"EventsArrive", eventsArrive},
	{"Actions", actions},
	{"DropsAreTold", dropsAreTold},
	{"WeightsShareFlows", weightsShareFlows},
	{"LocatorStateMovesItsFlowsAlone", locatorStateMovesItsFlowsAlone},
	{"NoLocatorIsUp", noLocatorIsUp},
	{"UnconfirmedLocators", unconfirmedLocators},
	{"FromCore", fromCore},
	{"FromCoreRefused", fromCoreRefused},
	{"SourcesAreTold", sourcesAreTold},
	{"HeadersTell", headersTell},
	{"HeadersOnThePublicInternet", headersOnThePublicInternet},
	{"HeadersAreHeeded", headersAreHeeded},
	{"StatusBitsPause", statusBitsPause},
	{"StatusBitsOfAnotherSet", statusBitsOfAnotherSet},
	{"EchoNonce", echoNonce},
	{"SourceCheck", sourceCheck},
	{"ListsDeny", listsDeny},
	{"ListsDenyRelayed", listsDenyRelayed},
	{"ListsOfProxies", listsOfProxies},
	{"ListsAndPaths", listsAndPaths},
	{"Gleaning", gleaning},
	{"CountersMove", countersMove},
	{"TooBig", tooBig},
	{"FragmentsFit", fragmentsFit},
	{"ShrunkPathLosesNothing", shrunkPathLosesNothing},
	{"ShrunkPathOfRelaysLosesNothing", shrunkPathOfRelaysLosesNothing},
	{"RTRRelays", rtrRelays},
	{"RegisteredIsRelayed", registeredIsRelayed},
	{"RTRKeepsTheInstance", rtrKeepsTheInstance},
	{"RelayedHeadersConcernTheSite", relayedHeadersConcernTheSite},
	{"RelayedPacketsWait", relayedPacketsWait},
	{"RelayedPacketsGoNatively", relayedPacketsGoNatively},
	{"RelayedPacketsFollowPaths", relayedPacketsFollowPaths},
	{"PathsByNumber", pathsByNumber},
	{"PathsBySource", pathsBySource},
	{"PathsAreNumbered", pathsAreNumbered},
	{"RelayedPacketsTooBig", relayedPacketsTooBig},
	{"RelayedPacketsAreNotAnswered", relayedPacketsAreNotAnswered},
	{"PETRForwards", petrForwards},
	{"PITREncapsulates", pitrEncapsulates},
	{"PITRHasTheInstanceOfTheCore", pitrHasTheInstanceOfTheCore},
	{"TwoLayers", twoLayers},
	{"TwoLayersResolve", twoLayersResolve},
	{"LoopsOfMappings", loopsOfMappings},
	{"RLOCsInHoles", rlocsInHoles},
	{"LookupHops", lookupHops},
	{"DecapsulatedTwice", decapsulatedTwice},
	{"ControlPacketsBecomeEvents", controlPacketsBecomeEvents},
	{"ControlPacketsOfStrangers", controlPacketsOfStrangers},
	{"ControlPacketsOfAllNodes", controlPacketsOfAllNodes},
	{"ControlPacketsOfARelay", controlPacketsOfARelay},
	{"ControlPacketsAreBounded", controlPacketsAreBounded},
	{"ControlPacketsOfRoutersInUse", controlPacketsOfRoutersInUse},
}

// Run runs the suite, each test with a harness of its own, several at a time. lacks are the names of tests of what the engine
// does not do yet: they are told as skipped.
func Run(t *testing.T, factory Factory, lacks ...string) {
	lacks = slices.Clone(lacks)
	for _, test := range suite {
		lacking := slices.Index(lacks, test.name)
		if lacking >= 0 {
			lacks = slices.Delete(lacks, lacking, lacking+1)
		}
		t.Run(test.name, func(t *testing.T) {
			if lacking >= 0 {
				t.Skip("the engine is declared to lack this")
			}
			t.Parallel() // most of them wait more than they work
			test.run(newBench(t, factory))
		})
	}
	if len(lacks) > 0 {
		t.Errorf("no tests are named %v", lacks)
	}
}

// bench is a harness with its settings in force and the site's EIDs in the Database.
type bench struct {
	*testing.T
	Harness
	plane dataplane.Plane
}

const (
	siteDatabase4 = "10.1.0.0/24"
	siteDatabase6 = "2001:db8:1::/64"
)

func newBench(t *testing.T, factory Factory) *bench {
	t.Helper()
	h := factory(t)
	b := &bench{T: t, Harness: h, plane: h.Plane()}
	b.apply(dataplane.SetSettings{Settings: h.Settings()})
	b.apply(b.database(siteDatabase4), b.database(siteDatabase6))
	return b
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
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: lisp.MustParsePrefix(prefix), Locators: b.locators(locator(OwnRLOC4.String(), 1, 100), locator(OwnRLOC6.String(), 1, 100)),
	}}
}

func locator(rloc string, priority, weight uint8) lisp.Locator {
	return lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), Priority: priority, Weight: weight, Reachable: true}
}

func (b *bench) locators(locators ...lisp.Locator) lisp.LocatorSet {
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
	return put(lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: b.locators(locators...), TTLMinutes: lisp.DefaultTTLMinutes})
}

// to is a mapping with one locator.
func (b *bench) to(prefix, rloc string) dataplane.PutMapping {
	b.Helper()
	return b.mapping(prefix, locator(rloc, 1, 100))
}

func negative(prefix string, action lisp.Action) dataplane.PutMapping {
	return put(lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Action: action, TTLMinutes: 15})
}

func put(m lisp.Mapping) dataplane.PutMapping {
	now := time.Now()
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping: m, CreatedAt: now, ExpiresAt: now.Add(time.Duration(m.TTLMinutes) * time.Minute),
	}}
}

func remove(prefix string) dataplane.DeleteMapping {
	return dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix(prefix)}
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

// eventuallyDropped waits until so many packets were dropped for a reason.
func (b *bench) eventuallyDropped(reason string, packets uint64) {
	b.Helper()
	b.eventually(reason, func() bool { return b.plane.Counters().Drops[reason] >= packets })
	if got := b.plane.Counters().Drops[reason]; got != packets {
		b.Errorf("%d packets dropped for %s, want %d", got, reason, packets)
	}
}

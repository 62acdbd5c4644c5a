// SPDX-License-Identifier: Apache-2.0

package control

// What data packets and ICMP say about locators: RFC 9300 s.10 and s.10.1, RFC 9301 s.7.

import (
	"testing"
	"time"

	"loci/lisp"
)

const (
	hinted      = "192.0.2.2" // the first locator of 10.2.0.0/16
	alternative = "2001:db8:f::2"
)

// bits reports Locator-Status-Bits of the site of 10.2.0.0/16.
func (d *testNode) bits(bits uint32, count int) {
	d.HandleStatusBits(d.net.now, StatusBits{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), From: rloc(alternative), Bits: bits, Count: count})
	d.drain()
}

func (d *testNode) unreachable(r string) {
	d.HandleUnreachable(d.net.now, rloc(r))
	d.drain()
}

func (d *testNode) probing(p ProbingConfig) {
	c := d.config
	itr := *c.ITR
	itr.RLOCProbing = p
	c.ITR = &itr
	d.configure(c)
}

// TestStatusBitLowersItsLocator: RFC 9300 s.10: it is left at once and used again only
// when its bit returns, whatever probes say.
func TestStatusBitLowersItsLocator(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
	n.run(2 * time.Minute) // it answers every probe
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.bits(0b11, 32)
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("%s is down after its bit returned", hinted)
	}
	n.run(time.Second)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
}

func TestStatusBitsBeyondTheHeaderOrTheSetSayNothing(t *testing.T) {
	_, x1, _ := probedSites(t, "10.2.0.9")
	x1.bits(0xffff_fffc|0b11, 8)
	x1.bits(0, 0)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	x1.HandleStatusBits(x1.net.now, StatusBits{Prefix: lisp.MustParsePrefix("10.77.0.0/16"), Count: 32})
	x1.wantCounter(RefusedHint, 1)
}

// Shows RFC 9300 s.3 (2).
func TestFlappingStatusBitIsHeldDown(t *testing.T) {
	for _, p := range []ProbingConfig{{}, {Off: true}} {
		n, x1, _ := probedSites(t, "10.2.0.9")
		x1.probing(p)
		n.run(3 * time.Second)
		for range 3 {
			x1.bits(0b10, 32)
			x1.bits(0b11, 32)
		}
		x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
		n.run(flapHold + 15*time.Second) // the third fall: 20 seconds, and a probe
		if l := x1.locator(hinted); l.State == LocatorDown {
			t.Errorf("probing off %v: %s is held for ever: %+v", p.Off, hinted, l)
		}
	}
}

// TestStatusBitsGoWithTheirMapping: they are of one locator-set (RFC 9300 s.10).
func TestStatusBitsGoWithTheirMapping(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	c := x2.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	etr.Database[0].Locators = locators(hinted, alternative, "192.0.2.222")
	c.ETR = &etr
	x2.configure(c)
	n.run(3 * time.Second)
	if l := x1.locator(hinted); l.State == LocatorDown {
		t.Errorf("the status bit of another locator-set holds %s down", hinted)
	}
}

// TestStatusBitsStayWithTheLocatorSet: the data plane does not tell them again where only
// something else of the mapping changed.
func TestStatusBitsStayWithTheLocatorSet(t *testing.T) {
	n, x1, x2 := probedSites(t, "10.2.0.9")
	x1.bits(0b10, 32)
	c := x2.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	etr.Database[0].Version = 5
	c.ETR = &etr
	x2.configure(c)
	n.run(3 * time.Second)
	for m := range x1.MapCache() {
		if m.Mapping.Prefix == etr.Database[0].Prefix && m.Mapping.Version != 5 {
			t.Fatalf("the map-cache has version %d", m.Mapping.Version)
		}
	}
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
}

// TestNonceMismatch: RFC 9300 s.10.1: the path is unreachable; other algorithms override.
func TestNonceMismatch(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	x1.wantLocator(hinted, LocatorDown, LocatorNonceMismatch)
	n.run(time.Second)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered) // the probe at once overrides it
	n.lose = deaf(hinted)
	n.run(2 * time.Second)
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	n.run(10 * time.Second)
	if l := x1.locator(hinted); l.State != LocatorDown {
		t.Errorf("%s is %s", hinted, l.State)
	}
}

func TestUnreachableMovesTrafficWhereAnotherLocatorAnswers(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	n.lose = deaf(hinted)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable) // at once
	x1.unreachable(alternative)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered) // the only one left: a forgery stops nobody
	n.run(10 * time.Second)
	if l := x1.locator(hinted); l.State != LocatorDown {
		t.Errorf("%s is %s", hinted, l.State)
	}
}

// TestForgedUnreachablesFlapNoTraffic: the hold grows, as for any locator that flaps.
func TestForgedUnreachablesFlapNoTraffic(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	for range 600 {
		x1.unreachable(hinted)
		n.run(time.Second)
	}
	if fell := x1.counter(LocatorWentDown); fell > 8 {
		t.Errorf("the locator fell %d times in ten minutes", fell)
	}
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
}

func TestHintsWithoutProbing(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	x1.probing(ProbingConfig{Off: true})
	n.run(time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable)
	n.run(hintHold + time.Second)
	x1.wantLocator(hinted, LocatorUnknown, LocatorNotProbed)
	x1.bits(0b10, 32)
	n.run(5 * time.Minute)
	x1.wantLocator(hinted, LocatorDown, LocatorStatusBit)
	x1.bits(0b11, 32)
	n.run(time.Minute)
	x1.wantLocator(hinted, LocatorUnknown, LocatorNotProbed)
}

// Shows RFC 9300 s.4.1 (2), RFC 9300 s.10 (1), RFC 9300 s.10.1 (3), RFC 9300 s.16 (1), RFC 9302 s.8 (1).
func TestPublicInternetBelievesNoDataPacket(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	c := x1.config
	itr := *c.ITR
	itr.PublicInternet = true
	c.ITR = &itr
	x1.configure(c)
	n.run(time.Second)
	x1.bits(0, 32)
	x1.HandleNonceMismatch(n.now, rloc(hinted))
	x1.drain()
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	x1.wantLocator(alternative, LocatorUp, LocatorAnswered)
}

func TestHintsWithoutAnITR(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	ms.HandleStatusBits(n.now, StatusBits{})
	ms.HandleNonceMismatch(n.now, rloc(hinted))
	ms.HandleUnreachable(n.now, rloc(hinted))
	ms.wantCounter(LocatorHintReceived, 3)
}

// TestHintCutsNoMappingOff: what anybody can forge takes no mapping its only locator, not
// even where the locator stands beside others in another mapping.
func TestHintCutsNoMappingOff(t *testing.T) {
	n, x1, _ := probedSites(t, "10.2.0.9")
	c := x1.config
	itr := *c.ITR
	itr.StaticMappings = []lisp.Mapping{{Prefix: lisp.MustParsePrefix("10.9.0.0/16"), Locators: locators(hinted)}}
	c.ITR = &itr
	x1.configure(c)
	n.run(3 * time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorUp, LocatorAnswered)
	itr.StaticMappings = nil
	c.ITR = &itr
	x1.configure(c)
	n.run(3 * time.Second)
	x1.unreachable(hinted)
	x1.wantLocator(hinted, LocatorDown, LocatorUnreachable)
}

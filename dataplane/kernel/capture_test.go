// SPDX-License-Identifier: Apache-2.0

// Captures of the packets that programs and the pending-packet queue drop, with the reasons. The tests need root.

package kernel

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// capture begins to capture what a router drops.
func (r *router) capture(t *testing.T) (c *observe.Capture, err error) {
	t.Helper()
	err = r.ns.Do(func() (err error) {
		c, err = observe.OpenCapture("", r.instance)
		return err
	})
	return c, err
}

// next is the next packet that was dropped for a reason; others are passed over.
func next(t *testing.T, c *observe.Capture, reason forward.DropReason) (found observe.DroppedPacket) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	enough := errors.New("enough")
	err := c.Read(ctx, func(p observe.DroppedPacket) error {
		if p.Reason != reason {
			return nil
		}
		found = p
		found.Frame = bytes.Clone(p.Frame)
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatalf("no packet was dropped for %s: %v", reason, err)
	}
	return found
}

func TestCaptureOfDrops(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{})
			n.send(t, p, 1) // before anybody captures
			c, err := a.capture(t)
			must(t, err)
			defer c.Close()
			if _, err := a.capture(t); !errors.Is(err, pins.ErrBusy) {
				t.Errorf("a second capture: %v", err)
			}
			a.apply(t, negative(p, lisp.ActionDrop))
			n.send(t, p, 2)
			a.wantDropped(t, next(t, c, forward.DropActionDrop), p)

			a.apply(t, dataplane.DeleteMapping{Prefix: negative(p, 0).Entry.Mapping.Prefix})
			settings := a.Settings()
			settings.Wait.Time = 100 * time.Millisecond
			a.apply(t, dataplane.SetSettings{Settings: settings})
			n.send(t, p, 3)
			a.wantDropped(t, next(t, c, forward.DropWaitingTimeLimit), p)
			if lost, err := c.Lost(); lost != 0 || err != nil {
				t.Errorf("%d lost, %v", lost, err)
			}
		})
	}
}

// TestCaptureOfTheQueueDuringAFlood shows what the pending-packet queue drops while programs drop packets without end.
func TestCaptureOfTheQueueDuringAFlood(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	flooded, waits := pairs[0], pairs[3]
	a.apply(t, negative(flooded, lisp.ActionDrop))
	settings := a.Settings()
	settings.Wait.Time = 100 * time.Millisecond
	a.apply(t, dataplane.SetSettings{Settings: settings})
	c, err := a.capture(t)
	must(t, err)
	defer c.Close()
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(flooded.inner(1, 10), 9))
	ended := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				_, _ = f.conn.Write([]byte{0}) // refused once its source was told
			}
		}
	})
	defer flood.Wait()
	defer close(ended)
	next(t, c, forward.DropActionDrop)
	n.send(t, waits, 3)
	a.wantDropped(t, next(t, c, forward.DropWaitingTimeLimit), waits)
}

// negative is an entry for site B without locators.
func negative(p pair, action lisp.Action) dataplane.PutMapping {
	prefix := sitePrefixes(1)[0]
	if p.inner(1, 1).Is6() {
		prefix = sitePrefixes(1)[1]
	}
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{Prefix: prefix, Action: action, TTLMinutes: 10}, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}}
}

// send sends a UDP packet of so many octets from host A to host B.
func (n *network) send(t *testing.T, p pair, octets int) {
	t.Helper()
	must(t, n.hosts[0].Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort(p.inner(1, 10).String(), "9"))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(make([]byte, octets))
		return err
	}))
}

// wantDropped checks a packet from host A to host B.
func (r *router) wantDropped(t *testing.T, got observe.DroppedPacket, p pair) {
	t.Helper()
	must(t, r.ns.Do(func() error {
		site, err := net.InterfaceByName("site0")
		if err != nil {
			return err
		}
		if got.Ifindex != uint32(site.Index) || got.Link != tap.EthernetOctets || time.Since(got.At).Abs() > time.Minute {
			t.Errorf("%s: dropped at interface %d, at %s, %d octets of link layer", got.Reason, got.Ifindex, got.At, got.Link)
		}
		return nil
	}))
	h, err := forward.ParseHeader(got.Frame[got.Link:])
	if err != nil || h.Source != p.inner(0, 10) || h.Destination != p.inner(1, 10) || got.Octets != len(got.Frame) {
		t.Errorf("%s: %+v, %v, %d octets of %d", got.Reason, h, err, len(got.Frame), got.Octets)
	}
}

// A capture that was killed leaves nothing switched on for ever.
func TestAbandonedCaptureEnds(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	watched := func() bool {
		var watch abi.Watch
		must(t, a.store.Map(abi.MapWatch).Lookup(uint32(0), &watch))
		return watch.Flags != 0
	}
	process := a.startCapture(t)
	if !watched() {
		t.Error("nothing is watched")
	}
	must(t, a.Close())
	a.open(t, Options{})
	if !watched() {
		t.Error("a capture that lives was switched off")
	}
	if _, err := a.capture(t); !errors.Is(err, pins.ErrBusy) {
		t.Errorf("a second capture: %v", err)
	}
	kill(t, process)
	if !watched() {
		t.Error("a killed capture switched itself off")
	}
	must(t, a.Close())
	a.open(t, Options{})
	if watched() {
		t.Error("an abandoned capture goes on")
	}
	c, err := a.capture(t)
	must(t, err)
	must(t, c.Close())
}

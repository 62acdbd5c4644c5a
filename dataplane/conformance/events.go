// SPDX-License-Identifier: Apache-2.0

package conformance

// Events other than misses: what the control plane is told of what packets show.

import (
	"net/netip"
	"reflect"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// expectEvent demands an event of the kind of want, and its very values; others may
// come before it.
func (b *bench) expectEvent(want dataplane.Event) {
	b.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-b.plane.Events():
			if reflect.TypeOf(event) != reflect.TypeOf(want) {
				continue
			}
			if !reflect.DeepEqual(event, want) {
				b.Fatalf("event %T %+v, want %+v", event, event, want)
			}
			return
		case <-deadline:
			b.Fatalf("no event %T %+v; counters %+v", want, want, b.plane.Counters())
		}
	}
}

// expiredMappingsAreTold when they are deleted, and no others are.
func expiredMappingsAreTold(b *bench) {
	expired, alive, static := b.to("10.2.0.0/24", "192.0.2.2"), b.to("10.3.0.0/24", "192.0.2.2"), b.to("10.4.0.0/24", "192.0.2.2")
	expired.Entry.CreatedAt = expired.Entry.CreatedAt.Add(-time.Hour)
	expired.Entry.ExpiresAt = expired.Entry.CreatedAt.Add(time.Minute)
	static.Entry.Static, static.Entry.ExpiresAt = true, time.Time{}
	last := b.to("[7]2001:db8:2::/48", "192.0.2.2")
	last.Entry.CreatedAt, last.Entry.ExpiresAt = expired.Entry.CreatedAt, expired.Entry.ExpiresAt
	b.apply(expired, alive, static, last)
	b.apply(remove("10.3.0.0/24"), remove("10.4.0.0/24"), remove("10.2.0.0/24"), remove("[7]2001:db8:2::/48"))
	b.expectEvent(dataplane.Expired{Prefix: lisp.MustParsePrefix("10.2.0.0/24")})
	b.expectEvent(dataplane.Expired{Prefix: lisp.MustParsePrefix("[7]2001:db8:2::/48")})
}

// eventsArrive demands that every kind reaches the control plane as it was raised.
func eventsArrive(b *bench) {
	raiser, ok := b.Harness.(Raiser)
	if !ok {
		b.Skip("this harness raises no event by itself")
	}
	rloc4, rloc6 := lisp.RLOCFromAddr(PeerRLOCs[0]), lisp.RLOCFromAddr(PeerRLOCs[2])
	versions := dataplane.PacketVersions{
		Instance: 7, Source: lisp.EIDFromAddr(from4("10.2.0.1").to), Destination: lisp.EIDFromAddr(SiteHosts[0]), From: rloc6,
		SourceVersion: 4095, DestinationVersion: 1,
	}
	for _, event := range []dataplane.Event{
		dataplane.Miss{Instance: 7, Source: lisp.EIDFromAddr(SiteHosts[1]), Destination: lisp.EIDFromAddr(from6("2001:db8:2::1").to), Interface: "site0"},
		dataplane.Expired{Prefix: lisp.MustParsePrefix("[7]10.2.0.0/24")},
		dataplane.StatusBitsChanged{Prefix: lisp.MustParsePrefix("[7]10.2.0.0/24"), From: rloc4, Bits: 0x5, Count: 8},
		dataplane.StatusBitsChanged{Prefix: lisp.MustParsePrefix("2001:db8:2::/48"), From: rloc6, Bits: 0xFFFFFFFE, Count: 32},
		dataplane.LocalVersionStale{PacketVersions: versions},
		dataplane.RemoteVersionStale{PacketVersions: versions},
		dataplane.NonceMismatch{RLOC: rloc4, Sent: 0xABCDEF, Received: 1},
		dataplane.NonceMismatch{RLOC: rloc6, Sent: 0xABCDEF},
		dataplane.LocatorUnreachable{RLOC: rloc4, Type: 3, Code: 1},
		dataplane.LocatorUnreachable{RLOC: rloc6, Type: 1, Code: 4},
		dataplane.MTUChanged{RLOC: rloc4, MTU: 1400},
		dataplane.MTUChanged{RLOC: rloc6},
		dataplane.ControlPacket{Source: netip.AddrPortFrom(PeerRLOCs[0], 4342), Destination: netip.AddrPortFrom(OwnRLOC4, 4341), Payload: []byte{0x45, 1, 2}},
		dataplane.ControlPacket{Source: netip.AddrPortFrom(PeerRLOCs[2], 4341), Destination: netip.AddrPortFrom(OwnRLOC6, 4341), Payload: []byte{0x70}},
		dataplane.Gleaned{Instance: 7, Source: versions.Source, Destination: versions.Destination, From: rloc6},
	} {
		raiser.Raise(event)
		b.expectEvent(event)
	}
}

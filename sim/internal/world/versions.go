// SPDX-License-Identifier: Apache-2.0

package world

// Map-Versions (RFC 9302): in some seeds data packets carry them, and the operators of some sites give their
// mappings one and raise it with each change. What a packet with a version says is held against what its
// receiver has.

import (
	"loci/control"
	"loci/dataplane"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/packets"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// giveVersions gives the mappings of some sites a Map-Version, of some one that is about to begin anew.
func giveVersions(w *World, s *Site) {
	if w.Kinds.Chance(0.3) {
		return
	}
	s.version = uint16(1 + w.Kinds.IntN(lisp.MaxMapVersion))
	if w.Kinds.Chance(0.5) {
		s.version = lisp.MaxMapVersion - uint16(w.Kinds.IntN(4))
	}
}

// contents is all that the site's mappings say, as a hash.
func (s *Site) contents() uint64 {
	t := virtual.Trace{}
	for _, p := range s.Prefixes {
		t.Mix(mirror.Hash(p.locators(nil)))
	}
	return t.Hash
}

// raiseVersion gives the site's mappings another version when they say something else (RFC 9302 s.6).
func (s *Site) raiseVersion() {
	if s.version == lisp.NullMapVersion {
		return
	}
	if now := s.contents(); now != s.versionOf {
		s.version, s.versionOf = lisp.NextMapVersion(s.version), now
	}
}

// versionsOf is what the daemon makes of the event.
func versionsOf(p dataplane.PacketVersions) control.MapVersions {
	return control.MapVersions{
		Instance: p.Instance, Source: p.Source, Destination: p.Destination, From: p.From,
		SourceVersion: p.SourceVersion, DestinationVersion: p.DestinationVersion,
	}
}

// checkVersions judges a packet that a tunnel router took: its destination version is not newer than that of
// the site's mapping, its source version not older than that of the mapping in the map-cache (RFC 9302 s.7).
func checkVersions(w *World, r *Router, packet []byte) {
	data := packet[len(packet)-len(packets.Inner(packet))-wire.DataHeaderOctets:]
	header, _, err := wire.ParseDataHeader(data)
	if err != nil || !header.MapVersion {
		return
	}
	in := packets.Inner(packet)
	p, own, known := r.own.of(r.Site.Instance, lisp.EIDFromAddr(packets.Destination(in)))
	switch {
	case !known || own == lisp.NullMapVersion:
		w.Fail(r, invariantVersion, "a packet for version %d of %s is taken, which has none", header.DestinationVersion, p)
	case lisp.CompareMapVersions(header.DestinationVersion, own) > 0:
		w.Fail(r, invariantVersion, "a packet for version %d of %s is taken, it is at %d", header.DestinationVersion, p, own)
	}
	e, ok := r.Mirror.Longest(r.Site.Instance, lisp.EIDFromAddr(packets.Source(in)))
	if ok && lisp.CompareMapVersions(header.SourceVersion, e.Mapping.Version) < 0 {
		w.Fail(r, invariantVersion, "a packet by version %d of %s is taken, the map-cache has %d", header.SourceVersion, e.Mapping.Prefix, e.Mapping.Version)
	}
}

// ownVersions are the Map-Versions of a Database, as the data plane was told.
type ownVersions map[lisp.Prefix]uint16

// of is the version of the Database entry that an EID is in.
func (o ownVersions) of(instance lisp.InstanceID, eid lisp.EID) (p lisp.Prefix, version uint16, ok bool) {
	for own, v := range o {
		if own.Contains(instance, eid) && (!ok || own.Bits() > p.Bits()) {
			p, version, ok = own, v, true
		}
	}
	return p, version, ok
}

// checkVersion: no mapping gives way to an older version of itself.
func checkVersion(w *World, r *Router, e *control.MapCacheEntry) {
	before, known := r.Mirror.Entries[e.Mapping.Prefix]
	if known && !before.Gleaned && lisp.CompareMapVersions(e.Mapping.Version, before.Mapping.Version) < 0 {
		w.Fail(r, invariantVersion, "%s of version %d takes the place of version %d", e.Mapping, e.Mapping.Version, before.Mapping.Version)
	}
}

// SPDX-License-Identifier: Apache-2.0

package checks

// Map-Versions (RFC 9302): in some seeds data packets carry them, and the operators of some sites give their
// mappings one and raise it with each change. What a packet with a version says is held against what its
// receiver has.

import (
	"loci/control"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/wire"
)

// CheckVersions judges a packet that a tunnel router took: its destination version is not newer than that of
// the site's mapping, its source version not older than that of the mapping in the map-cache (RFC 9302 s.7).
func (r *Record) CheckVersions(packet []byte) {
	j := r.judge
	data := packet[len(packet)-len(packets.Inner(packet))-wire.DataHeaderOctets:]
	header, _, err := wire.ParseDataHeader(data)
	if err != nil || !header.MapVersion {
		return
	}
	in := packets.Inner(packet)
	p, own, known := r.Own.of(r.Site.Instance, lisp.EIDFromAddr(packets.Destination(in)))
	switch {
	case !known || own == lisp.NullMapVersion:
		j.Fail(r, invariantVersion, "a packet for version %d of %s is taken, which has none", header.DestinationVersion, p)
	case lisp.CompareMapVersions(header.DestinationVersion, own) > 0:
		j.Fail(r, invariantVersion, "a packet for version %d of %s is taken, it is at %d", header.DestinationVersion, p, own)
	}
	e, ok := r.Mirror.Longest(r.Site.Instance, lisp.EIDFromAddr(packets.Source(in)))
	if ok && lisp.CompareMapVersions(header.SourceVersion, e.Mapping.Version) < 0 {
		j.Fail(r, invariantVersion, "a packet by version %d of %s is taken, the map-cache has %d", header.SourceVersion, e.Mapping.Prefix, e.Mapping.Version)
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
func checkVersion(j *Judge, r *Record, e *control.MapCacheEntry) {
	before, known := r.Mirror.Entries[e.Mapping.Prefix]
	if known && !before.Gleaned && lisp.CompareMapVersions(e.Mapping.Version, before.Mapping.Version) < 0 {
		j.Fail(r, invariantVersion, "%s of version %d takes the place of version %d", e.Mapping, e.Mapping.Version, before.Mapping.Version)
	}
}

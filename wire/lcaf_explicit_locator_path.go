// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 10, Explicit Locator Path (RFC 8060 s.4.6, erratum 7252):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 10   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Rsvd3         |L|P|S|           AFI = x             |   repeated
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Reencap Hop  ...                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// ExplicitLocatorPathLCAF is the way that packets take over re-encapsulating
// tunnel routers.
type ExplicitLocatorPathLCAF struct {
	Hops []PathHop // at most MaxListEntries
}

// PathHop is one hop of an explicit locator path.
type PathHop struct {
	Lookup  bool // L: look the hop up again, it is an EID
	Probe   bool // P: it may be RLOC-probed
	Strict  bool // S: it must be used
	Address Address
}

const (
	hopLookup = 0x0004
	hopProbe  = 0x0002
	hopStrict = 0x0001
)

// LCAFType is LCAFExplicitLocatorPath.
func (*ExplicitLocatorPathLCAF) LCAFType() LCAFType { return LCAFExplicitLocatorPath }

// AFI is AFILCAF.
func (*ExplicitLocatorPathLCAF) AFI() AFI { return AFILCAF }

// String lists the hops with arrows.
func (a *ExplicitLocatorPathLCAF) String() string {
	texts := make([]string, len(a.Hops))
	for i := range a.Hops {
		texts[i] = show(a.Hops[i].Address)
	}
	return "elp(" + strings.Join(texts, " -> ") + ")"
}

func parseExplicitLocatorPath(r *reader) Address {
	a := &ExplicitLocatorPathLCAF{}
	for r.remaining() > 0 && !r.failed() {
		if len(a.Hops) == MaxListEntries {
			r.fail("Reencap Hop", ReasonTooMany, "")
			return a
		}
		flags := r.u16("hop flags")
		a.Hops = append(a.Hops, PathHop{
			Lookup: flags&hopLookup != 0, Probe: flags&hopProbe != 0, Strict: flags&hopStrict != 0, Address: r.address("Reencap Hop"),
		})
	}
	return a
}

func (a *ExplicitLocatorPathLCAF) appendTo(b []byte) ([]byte, error) {
	if len(a.Hops) > MaxListEntries {
		return b, fmt.Errorf("path of %d hops: want at most %d", len(a.Hops), MaxListEntries)
	}
	b, at := beginLCAF(b, LCAFExplicitLocatorPath, 0)
	var err error
	for i := range a.Hops {
		h := &a.Hops[i]
		flags := bit16(h.Lookup, hopLookup) | bit16(h.Probe, hopProbe) | bit16(h.Strict, hopStrict)
		if b, err = appendAddress(binary.BigEndian.AppendUint16(b, flags), h.Address); err != nil {
			return b, fmt.Errorf("hop %d: %w", i+1, err)
		}
	}
	return endLCAF(b, at)
}

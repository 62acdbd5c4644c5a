// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 13, Replication List Entry (RFC 8060 s.4.9):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 13   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              Rsvd3            |     Rsvd4     |  Level Value  |   repeated
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |           RTR/ETR ...         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"fmt"
	"strings"
)

// ReplicationListLCAF is where a multicast packet is replicated to.
type ReplicationListLCAF struct {
	Entries []ReplicationEntry // at most MaxListEntries
}

// ReplicationEntry is one receiver; who replicates sends to the lowest level,
// ETRs have level 128 (RFC 8378 s.5.1.2).
type ReplicationEntry struct {
	Level   uint8
	Address Address
}

// LCAFType is LCAFReplicationList.
func (*ReplicationListLCAF) LCAFType() LCAFType { return LCAFReplicationList }

// AFI is AFILCAF.
func (*ReplicationListLCAF) AFI() AFI { return AFILCAF }

// String lists the entries with their levels.
func (a *ReplicationListLCAF) String() string {
	texts := make([]string, len(a.Entries))
	for i, e := range a.Entries {
		texts[i] = fmt.Sprintf("%s(level %d)", show(e.Address), e.Level)
	}
	return "rle(" + strings.Join(texts, ", ") + ")"
}

func parseReplicationList(r *reader) Address {
	a := &ReplicationListLCAF{}
	for r.remaining() > 0 && !r.failed() {
		if len(a.Entries) == MaxListEntries {
			r.fail("RTR/ETR", ReasonTooMany, "")
			return a
		}
		r.take(3, "reserved")
		a.Entries = append(a.Entries, ReplicationEntry{Level: r.u8("Level Value"), Address: r.address("RTR/ETR")})
	}
	return a
}

func (a *ReplicationListLCAF) appendTo(b []byte) ([]byte, error) {
	if len(a.Entries) > MaxListEntries {
		return b, fmt.Errorf("replication list of %d entries: want at most %d", len(a.Entries), MaxListEntries)
	}
	b, at := beginLCAF(b, LCAFReplicationList, 0)
	var err error
	for i := range a.Entries {
		if b, err = appendAddress(append(b, 0, 0, 0, a.Entries[i].Level), a.Entries[i].Address); err != nil {
			return b, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return endLCAF(b, at)
}

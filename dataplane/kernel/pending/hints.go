// SPDX-License-Identifier: Apache-2.0

// This file turns what the programs say about headers of others (bpf/nonce_lsb_version.h; RFC
// 9300 s.10, s.10.1, RFC 9302 s.7) into events for the control plane. The programs
// limit their rate. Nothing here is acted upon.

package pending

import (
	"fmt"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// hint sends what an event says that is no miss.
func (m *Misses) hint(e *abi.Event) error {
	if e.Family != 4 && e.Family != 6 || e.RlocFamily != 4 && e.RlocFamily != 6 {
		return fmt.Errorf("kind %d, families %d and %d", e.Kind, e.Family, e.RlocFamily)
	}
	from := lisp.RLOCFromAddr(abi.Addr(e.RlocFamily, e.Rloc))
	switch abi.EventKind(e.Kind) {
	case abi.EventStatusBits:
		prefix, ok := m.covering(lisp.InstanceID(e.Iid), abi.Addr(e.Family, e.Source))
		if ok { // else the mapping is gone meanwhile
			m.Tell(dataplane.StatusBitsChanged{Prefix: prefix, From: from, Bits: e.Value, Count: int(e.Other)})
		}
	case abi.EventDestinationVersion:
		m.Tell(dataplane.RemoteVersionStale{PacketVersions: versionsFrom(e, from)})
	case abi.EventSourceVersion:
		m.Tell(dataplane.LocalVersionStale{PacketVersions: versionsFrom(e, from)})
	case abi.EventGleaned:
		v := versionsFrom(e, from)
		m.Tell(dataplane.Gleaned{Instance: v.Instance, Source: v.Source, Destination: v.Destination, From: from})
	case abi.EventEchoMissing:
		m.Tell(dataplane.NonceMismatch{RLOC: from, Sent: e.Value, Received: e.Other})
	default:
		return fmt.Errorf("kind %d", e.Kind)
	}
	return nil
}

func versionsFrom(e *abi.Event, from lisp.RLOC) dataplane.PacketVersions {
	return dataplane.PacketVersions{
		Instance: lisp.InstanceID(e.Iid), From: from,
		Source: lisp.EIDFromAddr(abi.Addr(e.Family, e.Source)), Destination: lisp.EIDFromAddr(abi.Addr(e.Family, e.Destination)),
		SourceVersion: uint16(e.Value), DestinationVersion: uint16(e.Other),
	}
}

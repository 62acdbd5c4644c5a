// SPDX-License-Identifier: Apache-2.0

package events

// What the data plane tells, for the Node and for `loci monitor`. Nothing here acts on
// an event: the Node does.

import (
	"fmt"
	"strconv"
	"time"

	"loci/daemon/api"
	"loci/dataplane"
)

// FromPlane is an event for `loci monitor`. Expired mappings are told by the Node.
func FromPlane(now time.Time, event dataplane.Event) (api.Event, bool) {
	var kind string
	var fields map[string]string
	switch e := event.(type) {
	case dataplane.Miss:
		kind, fields = "miss", map[string]string{
			"instance_id": e.Instance.String(), "source": e.Source.String(), "destination": e.Destination.String(), "interface": e.Interface,
		}
	case dataplane.StatusBitsChanged:
		kind, fields = "locator-status-bits", map[string]string{
			"eid_prefix": e.Prefix.String(), "from": e.From.String(), "bits": fmt.Sprintf("%#x", e.Bits), "count": strconv.Itoa(e.Count),
		}
	case dataplane.LocalVersionStale:
		kind, fields = "local-version-stale", versionFields(e.PacketVersions)
	case dataplane.RemoteVersionStale:
		kind, fields = "remote-version-stale", versionFields(e.PacketVersions)
	case dataplane.Gleaned:
		kind, fields = "gleaned", map[string]string{
			"instance_id": e.Instance.String(), "source": e.Source.String(), "destination": e.Destination.String(), "from": e.From.String(),
		}
	case dataplane.NonceMismatch:
		kind, fields = "nonce-mismatch", map[string]string{
			"rloc": e.RLOC.String(), "sent": fmt.Sprintf("%#06x", e.Sent), "received": fmt.Sprintf("%#06x", e.Received),
		}
	case dataplane.LocatorUnreachable:
		kind, fields = "locator-unreachable", map[string]string{
			"rloc": e.RLOC.String(), "icmp_type": strconv.Itoa(int(e.Type)), "icmp_code": strconv.Itoa(int(e.Code)),
		}
	case dataplane.MTUChanged:
		kind, fields = "path-mtu", map[string]string{"rloc": e.RLOC.String(), "mtu": strconv.Itoa(e.MTU)}
	default:
		return api.Event{}, false
	}
	return api.Event{At: now, Kind: kind, Fields: fields}, true
}

func versionFields(v dataplane.PacketVersions) map[string]string {
	return map[string]string{
		"instance_id": v.Instance.String(), "source": v.Source.String(), "destination": v.Destination.String(), "from": v.From.String(),
		"source_version": strconv.Itoa(int(v.SourceVersion)), "destination_version": strconv.Itoa(int(v.DestinationVersion)),
	}
}

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
	"loci/lisp"
)

// FromPlane is an event for `loci monitor`. Expired mappings are told by the Node.
func FromPlane(now time.Time, event dataplane.Event) (told api.Event, ok bool) {
	told.At = now
	switch e := event.(type) {
	case dataplane.Miss:
		told.Kind, told.EIDPrefix = "miss", host(e.Instance, e.Destination)
		told.Fields = map[string]string{"source": e.Source.String(), "destination": e.Destination.String(), "interface": e.Interface}
	case dataplane.StatusBitsChanged:
		told.Kind, told.EIDPrefix, told.Peer = "locator-status-bits", &e.Prefix, e.From.String()
		told.Fields = map[string]string{"bits": fmt.Sprintf("%#x", e.Bits), "count": strconv.Itoa(e.Count)}
	case dataplane.LocalVersionStale:
		told.Kind, told.EIDPrefix, told.Peer, told.Fields = "local-version-stale", host(e.Instance, e.Source), e.From.String(), versionFields(e.PacketVersions)
	case dataplane.RemoteVersionStale:
		told.Kind, told.EIDPrefix, told.Peer, told.Fields = "remote-version-stale", host(e.Instance, e.Destination), e.From.String(), versionFields(e.PacketVersions)
	case dataplane.Gleaned:
		told.Kind, told.EIDPrefix, told.Peer = "gleaned", host(e.Instance, e.Source), e.From.String()
		told.Fields = map[string]string{"source": e.Source.String(), "destination": e.Destination.String()}
	case dataplane.NonceMismatch:
		told.Kind, told.RLOC = "nonce-mismatch", e.RLOC.String()
		told.Fields = map[string]string{"sent": fmt.Sprintf("%#06x", e.Sent), "received": fmt.Sprintf("%#06x", e.Received)}
	case dataplane.LocatorUnreachable:
		told.Kind, told.RLOC = "locator-unreachable", e.RLOC.String()
		told.Fields = map[string]string{"icmp_type": strconv.Itoa(int(e.Type)), "icmp_code": strconv.Itoa(int(e.Code))}
	case dataplane.MTUChanged:
		told.Kind, told.RLOC, told.Fields = "path-mtu", e.RLOC.String(), map[string]string{"mtu": strconv.Itoa(e.MTU)}
	default:
		return api.Event{}, false
	}
	return told, true
}

// host is the EID-Prefix of one EID.
func host(instance lisp.InstanceID, e lisp.EID) *lisp.Prefix {
	p := lisp.HostPrefix(instance, e)
	return &p
}

func versionFields(v dataplane.PacketVersions) map[string]string {
	return map[string]string{
		"source": v.Source.String(), "destination": v.Destination.String(),
		"source_version": strconv.Itoa(int(v.SourceVersion)), "destination_version": strconv.Itoa(int(v.DestinationVersion)),
	}
}

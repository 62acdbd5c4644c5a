// SPDX-License-Identifier: Apache-2.0

package api

// What happened, as the control socket tells it, and the questions by which a client narrows it.

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"loci/lisp"
)

// Event is something that the protocol did; docs/events.md describes each kind.
type Event struct {
	At        time.Time         `json:"at"`
	Kind      string            `json:"kind"`
	EIDPrefix *lisp.Prefix      `json:"eid_prefix"` // what it is about
	Peer      string            `json:"peer"`       // the sender or receiver of a message or packet: address and port, or address
	RLOC      string            `json:"rloc"`       // the locator, or the path by its hops, that it is about
	Site      string            `json:"site"`       // of the Map-Server's configuration
	Reason    string            `json:"reason"`     // why, in a word
	Fields    map[string]string `json:"fields"`     // what this kind has beside these
	Detail    string            `json:"detail"`     // the rest in words
}

// EventKinds are all kinds of events, sorted.
var EventKinds = []string{
	"configuration-changed", "data-path-lost", "data-path-passes", "duplicate-eid", "duplicate-eid-ended",
	"eid-not-acknowledged", "events-lost", "gleaned", "info-reply-received", "info-reply-sent",
	"info-request-sent", "info-request-unanswered", "local-version-stale", "locator-down", "locator-silent",
	"locator-status-bits", "locator-unconfirmed", "locator-unreachable", "locator-up", "log-level-changed",
	"map-notify-received", "map-notify-sent", "map-notify-unacknowledged", "map-register-relayed",
	"map-register-sent", "map-reply-received", "map-reply-sent", "map-request-forwarded", "map-request-sent",
	"map-request-unanswered", "map-resolver-answers", "map-resolver-silent", "map-server-silent",
	"map-version-invalid", "map-version-not-raised", "mapping-installed", "mapping-kept", "mapping-loop",
	"mapping-lost", "mapping-refreshed", "mapping-removed", "mapping-stale", "message-refused", "miss",
	"nat-binding-lost", "nat-binding-made", "nat-binding-moved", "nat-binding-removed", "nat-found", "nat-gone",
	"nat-rloc-added", "nat-rloc-removed",
	"negative-map-reply-sent", "nonce-mismatch", "own-rloc-down", "own-rloc-up", "path-moved", "path-mtu",
	"path-mtu-black-hole", "paths-ambiguous", "registered", "registration-changed", "registration-expired", "registration-refused",
	"registration-removed", "registration-withdrawn", "remote-version-stale", "rloc-probe-answered",
	"rloc-probe-reply-sent", "rloc-probe-sent", "rtr-answers", "rtr-chosen", "rtr-confirmed", "rtr-left",
	"rtr-silent", "sibling-heard", "sibling-path", "sibling-path-ended", "sibling-silent", "smr-received",
	"smr-sent", "subflow-bound", "subflow-ended", "subflow-moved", "translation-restored",
}

// EventsLost is the kind that tells a reader what it missed; every reader gets it.
const EventsLost = "events-lost"

// probeKinds are frequent and tell little.
var probeKinds = []string{"rloc-probe-answered", "rloc-probe-reply-sent", "rloc-probe-sent"}

// EventQuery narrows the events of the control socket: `?kind=miss&kind=locator-down&peer=192.0.2.0/24`.
type EventQuery struct {
	Kinds     []string     // none: all but RLOC-probes
	EIDPrefix lisp.Prefix  // events about what it covers or is covered by; zero for all
	Peer      netip.Prefix // of the peer, or of a hop of the RLOC; zero for all
	Since     time.Time    // tell the events since then first, as far as the daemon has kept them; zero for none
	Probes    bool         // RLOC-probes as well
}

// Wants reports whether an event belongs to the answer.
func (q *EventQuery) Wants(e *Event) bool {
	if e.Kind == EventsLost {
		return true
	}
	if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind) || len(q.Kinds) == 0 && !q.Probes && slices.Contains(probeKinds, e.Kind) {
		return false
	}
	if !q.EIDPrefix.IsZero() && (e.EIDPrefix == nil || !e.EIDPrefix.Overlaps(q.EIDPrefix)) {
		return false
	}
	return !q.Peer.IsValid() || q.hasPeer(e.Peer) || slices.ContainsFunc(strings.Split(e.RLOC, " -> "), q.hasPeer)
}

// hasPeer reports whether an address, with or without a port, is the peer that is wanted.
func (q *EventQuery) hasPeer(text string) bool {
	address, err := netip.ParseAddr(text)
	if err != nil {
		withPort, failed := netip.ParseAddrPort(text)
		if failed != nil {
			return false
		}
		address = withPort.Addr()
	}
	return q.Peer.Contains(address.Unmap())
}

func (q *EventQuery) encode() string {
	values := url.Values{}
	if len(q.Kinds) > 0 {
		values["kind"] = q.Kinds
	}
	if !q.EIDPrefix.IsZero() {
		values.Set("eid", q.EIDPrefix.String())
	}
	if q.Peer.IsValid() {
		values.Set("peer", q.Peer.String())
	}
	if !q.Since.IsZero() {
		values.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Probes {
		values.Set("probes", "true")
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// ParseEventQuery reads the query of a URL, as encode writes it.
func ParseEventQuery(v url.Values) (q EventQuery, err error) {
	if err := checkKnown(v, "kind", "eid", "peer", "since", "probes"); err != nil {
		return q, err
	}
	for _, kind := range v["kind"] {
		if !slices.Contains(EventKinds, kind) {
			return q, fmt.Errorf("kind: there is no event %q", kind)
		}
	}
	q.Kinds = v["kind"]
	if text := v.Get("eid"); text != "" {
		if q.EIDPrefix, err = lisp.ParsePrefix(text); err != nil {
			return q, err
		}
	}
	if text := v.Get("peer"); text != "" {
		if q.Peer, err = ParsePeer(text); err != nil {
			return q, err
		}
	}
	if text := v.Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, fmt.Errorf("since: %q is not a time as 2026-11-23T15:04:05Z", text)
		}
	}
	q.Probes, err = parseBool(v, "probes")
	return q, err
}

// ParsePeer reads an address, or a prefix of addresses.
func ParsePeer(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("peer: %q is neither an IPv4 or IPv6 address nor a prefix", text)
	}
	return prefix.Masked(), nil
}

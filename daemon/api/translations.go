// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/internal/jsondoc"
)

// What `loci show translations` shows.

// MaxTranslations is how many sessions an answer lists.
const MaxTranslations = 1000

// Translations is LISP-NAT, with its sessions.
type Translations struct {
	Table    string             `json:"table"`   // of nftables; empty where nothing is translated
	Problem  string             `json:"problem"` // why nothing is translated though it should be
	Entries  []TranslationEntry `json:"entries"`
	Sessions []Translation      `json:"sessions"` // at most 1000, in no order
	// SessionCount is how many sessions there are, the listed ones among them.
	SessionCount int `json:"session_count"`
	// RestoredTotal is how often the table was made anew because it was removed or changed by someone else.
	RestoredTotal uint64     `json:"restored_total"`
	RestoredAt    *time.Time `json:"restored_at"`
	// RefusedPortsTotal is how many sessions the kernel refused because all ports of a pool were taken.
	RefusedPortsTotal uint64 `json:"refused_ports_total"`
	// RefusedTrackingTotal is how many packets the kernel refused because connection tracking was full.
	RefusedTrackingTotal uint64 `json:"refused_tracking_total"`
	Tracked              uint64 `json:"tracked"`       // connections of the whole network namespace
	TrackedLimit         uint64 `json:"tracked_limit"` // net.netfilter.nf_conntrack_max
}

// TranslationEntry is one of itr.lisp-nat.
type TranslationEntry struct {
	From             string `json:"from"`
	Pool             string `json:"pool"`
	Translate        string `json:"translate"`
	EIDs             bool   `json:"eids"`              // From are EIDs, whose packets to hosts outside LISP are translated
	SessionsTotal    uint64 `json:"sessions_total"`    // begun so far
	UnsolicitedTotal uint64 `json:"unsolicited_total"` // packets to the pool without a session, dropped
}

// Translation is a session. Of ICMP echo the ports are the identifier.
type Translation struct {
	Protocol    string          `json:"protocol"`
	Source      TranslationEnd  `json:"source"`
	Translated  TranslationEnd  `json:"translated"` // what the source became
	Destination TranslationEnd  `json:"destination"`
	ExpiresIn   jsondoc.Seconds `json:"expires_in_seconds"`
}

// TranslationEnd is an end of a session.
type TranslationEnd struct {
	Address netip.Addr `json:"address"`
	Port    uint16     `json:"port"`
}

// String has both.
func (e TranslationEnd) String() string { return netip.AddrPortFrom(e.Address, e.Port).String() }

// Translations asks what LISP-NAT translates.
func (c *Client) Translations(ctx context.Context) (t Translations, err error) {
	return t, c.get(ctx, PathTranslations, &t)
}

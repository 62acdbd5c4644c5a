// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"net/netip"
	"strconv"

	"loci/daemon/api"
	"loci/daemon/lispnat"
	"loci/internal/jsondoc"
)

// What `loci show translations` is answered.

// protocolNames are those of the protocols that have sessions of their own.
var protocolNames = map[uint8]string{1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 58: "icmpv6", 132: "sctp"}

// Translations answers `loci show translations`.
func (a *Answers) Translations(context.Context) (api.Translations, error) {
	t := api.Translations{Entries: []api.TranslationEntry{}, Sessions: []api.Translation{}}
	if a.Translator == nil {
		return t, nil
	}
	state := a.Translator.State()
	t.Table, t.RestoredTotal, t.RestoredAt = state.Table, state.Restores, jsondoc.KnownTime(state.RestoredAt)
	t.RefusedPortsTotal, t.RefusedTrackingTotal = state.RefusedPorts, state.RefusedTable
	t.Tracked, t.TrackedLimit = state.Tracked, state.TrackedLimit
	if state.Problem != nil {
		t.Problem = state.Problem.Error()
	}
	for _, e := range state.Entries {
		t.Entries = append(t.Entries, api.TranslationEntry{
			From: e.From.String(), Pool: e.Pool.String(), Translate: string(e.Translate), EIDs: e.EIDs,
			SessionsTotal: e.Begun, UnsolicitedTotal: e.Unsolicited,
		})
	}
	list, total, err := a.Translator.Sessions(api.MaxTranslations)
	t.SessionCount = total
	for _, s := range list {
		t.Sessions = append(t.Sessions, translationOf(&s))
	}
	return t, err
}

func translationOf(s *lispnat.Session) api.Translation {
	protocol, known := protocolNames[s.Protocol]
	if !known {
		protocol = strconv.Itoa(int(s.Protocol))
	}
	endOf := func(a netip.AddrPort) api.TranslationEnd {
		return api.TranslationEnd{Address: a.Addr(), Port: a.Port()}
	}
	return api.Translation{
		Protocol: protocol, Source: endOf(s.Source),
		Translated: endOf(s.Translated), Destination: endOf(s.Destination),
		ExpiresIn: jsondoc.SecondsOf(s.Expires),
	}
}

// addTranslations counts what LISP-NAT did.
func (a *Answers) addTranslations(c *api.Counters) {
	if a.Translator == nil {
		return
	}
	state := a.Translator.State()
	for _, e := range state.Entries {
		c.Control["translation_sessions_total"] += e.Begun
		c.Control["translation_unsolicited_packets_total"] += e.Unsolicited
	}
	if state.Table != "" {
		c.Control["translation_table_restored_total"] = state.Restores
		c.Control["refused_translation_ports_total"] = state.RefusedPorts
		c.Control["refused_translation_tracking_total"] = state.RefusedTable
	}
}

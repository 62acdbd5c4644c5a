// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"encoding/hex"
	"iter"

	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/lisp"
)

// What `loci show registrations` is answered.

// Registrations lists those of the Map-Server.
func (a *Answers) Registrations(ctx context.Context, q api.ListQuery) iter.Seq2[api.Registration, error] {
	read := func(node *control.Node, page []control.Registration, after lisp.Prefix) []control.Registration {
		return node.RegistrationsPage(page, q.EIDPrefix, after, pageOf(q))
	}
	return documents(pages(ctx, a.Loop, q.After, read, func(r *control.Registration) lisp.Prefix { return r.Prefix }), func(r control.Registration) (api.Registration, bool) {
		return registrationDocument(r), true
	})
}

func registrationDocument(r control.Registration) api.Registration {
	document := api.Registration{
		Site: r.Site, EIDPrefix: r.Prefix, Locators: api.LocatorsOf(r.Mapping.Locators), InForce: r.InForce, ETR: r.From.String(), KeyID: r.KeyID,
		Algorithm: config.Algorithm(r.Algorithm).String(), SiteID: r.SiteID,
		ProxyReply: r.ProxyReply, UseRecordTTL: r.UseTTL, MergeRequest: r.MergeRequest, WantMapNotify: r.WantMapNotify,
		RecordTTL: api.TTLOf(r.Mapping.TTLMinutes), MapVersion: r.Mapping.Version,
		FirstRegisteredAt: r.FirstRegisteredAt, LastRegisteredAt: r.LastRegisteredAt, ExpiresAt: r.ExpiresAt,
	}
	if r.ByRTR {
		document.RTR = r.From.Addr().String()
	}
	if r.XTRID != [16]byte{} {
		document.XTRID = hex.EncodeToString(r.XTRID[:])
	}
	if !r.AsAnswered {
		document.Answered = api.LocatorsOf(r.Merged.Locators)
	}
	return document
}

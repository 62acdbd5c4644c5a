// SPDX-License-Identifier: Apache-2.0

package world

// Registrations under strain: sites whose operator put an EID-Prefix of no site into their Database, some
// Map-Servers that refuse the whole Map-Register for it, as other implementations do, and outages of all
// Map-Servers that last longer than registrations. All other EID-Prefixes have to be registered all the same, the
// tunnel routers have to name the one that is not, and a Map-Server that comes back denies nothing yet.

import (
	"slices"
	"time"

	"loci/wire"
)

const (
	// serverStart is how long a Map-Server denies nothing after its start, by a clock that may be wrong.
	serverStart = 59 * time.Second
)

// refusesWhole reports whether a Map-Server drops a message without a word: the second one does so in some seeds.
func refusesWhole(w *World, r *Router, m *Mail) bool {
	if !w.Flavour.RefusesWhole || r.Router != w.Servers[len(w.Servers)-1] {
		return false
	}
	register, ok := m.Message().(*wire.MapRegister)
	return ok && slices.ContainsFunc(register.Records, func(record wire.Record) bool {
		p, err := record.Prefix()
		if err != nil {
			return false
		}
		_, owned := w.Owners.Longest(p)
		return !owned
	})
}

// watchDenial judges what a Map-Server says right after its start.
func watchDenial(r *Router, m *wire.MapReply) {
	if !slices.Contains(r.W.Servers, r.Router) || r.time().Sub(r.startedAt) >= serverStart {
		return
	}
	for i := range m.Records {
		mapping, err := m.Records[i].Mapping()
		if err != nil || !mapping.Negative() || mapping.TTLMinutes != unregisteredTTLMinutes {
			continue
		}
		if owner, ok := r.W.Owners.Longest(mapping.Prefix); ok {
			r.W.Fail(r, invariantStart, "denies %s of %s %s after its start", mapping.Prefix, owner.Site.Name, r.time().Sub(r.startedAt))
		}
	}
}

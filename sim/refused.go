// SPDX-License-Identifier: Apache-2.0

package sim

// Registrations under strain: sites whose operator put an EID-Prefix of nobody into their Database, some
// Map-Servers that refuse the whole Map-Register for it, as other implementations do, and outages of all
// Map-Servers that last longer than registrations. All other EID-Prefixes have to be registered all the same, the
// tunnel routers have to name the one that is not, and a Map-Server that comes back denies nothing yet.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// strangeShare and outageShare are in how many seeds there are such sites, and such outages.
	strangeShare = 0.25
	outageShare  = 0.2
	// serverStart is how long a Map-Server denies nothing after its start, by a clock that may be wrong.
	serverStart = 59 * time.Second
)

// makeStrange gives a site an EID-Prefix of nobody, before or behind its own.
func (w *world) makeStrange(s *site) {
	if s.siblings || s.parts() != nil || w.kinds.chance(0.5) {
		return
	}
	s.notify = true // who is not told cannot find it out
	net := pick(w.kinds, []byte{9, 12})
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{net, byte(s.index >> 8), byte(s.index), 0}), 24)
	if w.kinds.chance(0.3) {
		p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xba, byte(s.index >> 8), byte(s.index)}), 48)
	}
	strange, err := lisp.PrefixFromNetip(s.instance, p)
	if err != nil {
		panic(err)
	}
	s.strange = strange
}

// refusesWhole reports whether a Map-Server drops a message without a word: the second one does so in some seeds.
func (w *world) refusesWhole(r *router, m *mail) bool {
	if !w.flavour.refusesWhole || r != w.servers[len(w.servers)-1] {
		return false
	}
	register, ok := m.parsed().(*wire.MapRegister)
	return ok && slices.ContainsFunc(register.Records, func(record wire.Record) bool {
		p, err := record.Prefix()
		if err != nil {
			return false
		}
		_, owned := w.truth.longest(p)
		return !owned
	})
}

func outageFaults() []fault {
	return []fault{{"long-outage", 5 * time.Minute, (*world).loseServers}}
}

// loseServers takes all Map-Servers away, with what they knew.
func (w *world) loseServers() (string, func()) {
	var ends []func()
	for _, s := range w.servers {
		if _, end := w.fell(s, (*router).loseStore); end != nil {
			ends = append(ends, end)
		}
	}
	if len(ends) == 0 {
		return "", nil
	}
	return "all Map-Servers", func() {
		for _, end := range ends {
			end()
		}
	}
}

// watchDenial judges what a Map-Server says right after its start.
func (r *router) watchDenial(m *wire.MapReply) {
	if !slices.Contains(r.w.servers, r) || r.time().Sub(r.startedAt) >= serverStart {
		return
	}
	for i := range m.Records {
		mapping, err := m.Records[i].Mapping()
		if err != nil || !mapping.Negative() || mapping.TTLMinutes != unregisteredTTLMinutes {
			continue
		}
		if owner, ok := r.w.truth.longest(mapping.Prefix); ok {
			r.w.fail(r, invariantStart, "denies %s of %s %s after its start", mapping.Prefix, owner.site.name, r.time().Sub(r.startedAt))
		}
	}
}

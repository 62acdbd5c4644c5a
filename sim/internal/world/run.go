// SPDX-License-Identifier: Apache-2.0

package world

// The event loop of a run, and control messages that arrive at Nodes.

import (
	"fmt"
	"loci/sim/internal/checks"
	"runtime/debug"
	"slices"

	"loci/internal/jsondoc"
	"loci/sim/internal/packets"
	"loci/wire"
)

// Run turns a panic of the protocol code into a violation, with its place.
func (w *World) Run(s scenario) {
	defer func() {
		if reason := recover(); reason != nil {
			w.Fail(nil, checks.InvariantNoPanic, "%v\n%s", reason, debug.Stack())
		}
	}()
	w.scenario = s
	w.build()
	w.loop()
}

// maxAtOnce bounds the events of one moment for each router: more is a Node whose deadline never leaves the past.
const maxAtOnce = 200

// run lets virtual time pass until the end or the first violation.
func (w *World) loop() {
	for w.Failure == nil {
		at, e, ok := w.queue.Pop()
		if !ok || at > w.endsAt() {
			w.Now = w.endsAt()
			return
		}
		if w.atOnce++; at > w.Now {
			w.atOnce = 0
		}
		if w.atOnce > maxAtOnce*(len(w.Routers)+10) {
			w.Fail(e.router, checks.InvariantLimits, "time stands still: %d events at one moment", w.atOnce)
			return
		}
		w.Now = at
		w.Stats.Events++
		w.handle(e)
	}
}

func (w *World) handle(e event) {
	switch e.kind {
	case eventArrival:
		w.arrive(e.router, e.mail)
	case eventTimer:
		e.router.timer(w.Now)
	case eventDo:
		e.do()
	}
}

// Result is what the run came to.
func (w *World) Result() Result {
	w.Stats.Virtual = jsondoc.SecondsOf(w.Now)
	w.NoteConvergence()
	return Result{Seed: w.Options.Seed, Hash: w.Trace.Hash, Violation: w.Failure, Stats: w.Stats, Trace: w.Trace.Lines()}
}

// arrive is mail at a router. The address may have moved to another one meanwhile.
func (w *World) arrive(r *Router, m *Mail) {
	defer w.Network.Release(m)
	at, arrives := w.Network.Arrive(&r.Station, m)
	r = w.Router(at)
	switch {
	case !arrives:
	case m.Data:
		w.arrivePacket(r, m)
	case r.Node == nil:
		w.Stats.MessagesLost++
	default:
		w.arriveMessage(r, m)
	}
}

func (w *World) arriveMessage(r *Router, m *Mail) {
	w.Trace.Note(w.Now, r.Index, m.Payload, func() string {
		return fmt.Sprintf("%s receives %s from %s%s", r.Name, packets.Describe(m.Payload), m.From, origin(m))
	})
	if refusesWhole(w, r, m) {
		return
	}
	r.BeforeMessage(m)
	r.Node.HandleParsed(r.Time(), m.To, m.From, m.Payload, m.Message())
	r.drain()
	r.AfterMessage(m)
}

func origin(m *Mail) string {
	if m.Hostile {
		return " (the attacker)"
	}
	return ""
}

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

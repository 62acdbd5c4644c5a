// SPDX-License-Identifier: Apache-2.0

// Package report is what a simulated run is asked, and what it came to. It runs nothing.
package report

import (
	"fmt"
	"time"

	"loci/internal/jsondoc"
)

// The defaults of Options.
const (
	DefaultRouters    = 50
	DefaultDuration   = 10 * time.Minute
	DefaultTraceLines = 200
)

// MinRouters is the smallest network: two tunnel routers and two servers.
const MinRouters = 4

// ConvergenceBound is how long after the last fault everything must be as the
// configuration says. An ETR registers again within a minute (RFC 9301 s.8.2), a
// negative answer of a Map-Server that did not know it yet lives for one more, mappings
// live for two at most here, and an ITR that had given up asks again after 30 seconds
// (s.5.3) and then within eight.
const ConvergenceBound = 60*time.Second + MaxTTLMinutes*time.Minute + 30*time.Second + 10*time.Second

// MaxTTLMinutes is the longest TTL of the simulated mappings.
const MaxTTLMinutes = 2

// Options say what to run. The zero value of a field is its default.
type Options struct {
	Seed       uint64
	Routers    int           // tunnel routers and servers together, MinRouters at least
	Duration   time.Duration // virtual; seeds in which control planes die at the end (dying.go) last some minutes longer
	Calm       bool          // no faults and no attacker
	NAT        bool          // nodes behind NATs, with their Map-Server and RTR (package natworld), and nothing else
	OneAddress bool          // with NAT: all of them behind one address, but a few
	Trace      bool          // keep the last TraceLines events
	TraceLines int
}

// WithDefaults fills in what was left out.
func (o Options) WithDefaults() Options {
	if o.Routers == 0 {
		o.Routers = DefaultRouters
	}
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.TraceLines == 0 {
		o.TraceLines = DefaultTraceLines
	}
	o.Routers = max(o.Routers, MinRouters)
	return o
}

const (
	quietAtEnd     = 30 * time.Second // after everything has converged
	shortestFaults = 30 * time.Second // the time for faults, from the start of the run

	// MinDurationWithFaults is the shortest run that has faults: a shorter one has no time to converge after
	// them.
	MinDurationWithFaults = shortestFaults + ConvergenceBound + quietAtEnd
)

// HasFaults reports whether such a run has faults.
func (o Options) HasFaults() bool { return !o.Calm && o.Duration >= MinDurationWithFaults }

// FaultsEnd is when the last fault is over: the rest of the run is for convergence and
// a while of quiet. It is 0 for runs without faults.
func (o Options) FaultsEnd() time.Duration {
	if !o.HasFaults() {
		return 0
	}
	return o.Duration - ConvergenceBound - quietAtEnd
}

// Violation is a promise that was not kept.
type Violation struct {
	Invariant string          `json:"invariant"`
	At        jsondoc.Seconds `json:"at_seconds"`
	Router    string          `json:"router"`
	Detail    string          `json:"detail"`
}

// Error says what was not kept, where and when.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %s, router %s: %s", v.Invariant, v.At.Duration(), v.Router, v.Detail)
}

// Result is what a run came to.
type Result struct {
	Seed      uint64     `json:"seed"`
	Hash      uint64     `json:"trace_hash"` // of every event
	Violation *Violation `json:"violation"`
	Stats     Stats      `json:"stats"`
	Trace     []string   `json:"trace"` // with Options.Trace
}

// Stats count what happened.
type Stats struct {
	Routers         int               `json:"routers"`
	Sites           int               `json:"sites"`
	Relays          int               `json:"relays"`
	NATBoxes        int               `json:"nat_boxes"` // with Options.NAT
	Virtual         jsondoc.Seconds   `json:"virtual_seconds"`
	Events          uint64            `json:"events"`
	Messages        map[string]uint64 `json:"messages"` // control messages sent, by type
	MessagesLost    uint64            `json:"messages_lost"`
	MessagesHostile uint64            `json:"messages_hostile"`
	Faults          map[string]uint64 `json:"faults"`
	PacketsSent     uint64            `json:"packets_sent"` // by hosts
	PacketsHostile  uint64            `json:"packets_hostile"`
	PacketsCarried  uint64            `json:"packets_encapsulated"`
	PacketsArrived  uint64            `json:"packets_delivered"`
	PacketsNative   uint64            `json:"packets_native"`
	PacketsRelayed  uint64            `json:"packets_relayed"`
	Misses          uint64            `json:"misses"`
	Gleaned         uint64            `json:"mappings_gleaned"`
	// Convergence is how long after the last fault, or after the start where there is
	// none, everything was as the configuration says, and stayed so.
	Convergence jsondoc.Seconds `json:"convergence_seconds"`
	Converged   bool            `json:"converged"` // before the end
	// HeapPerRouter is what the whole run holds at its end, simulator included, in
	// octets; filled in by RunMeasured alone.
	HeapPerRouter uint64 `json:"heap_octets_per_router"`
}

// SPDX-License-Identifier: Apache-2.0

package control

// Node: the façade over the roles. It takes inputs, gives each to the role that
// it is for, and keeps the effects until they are polled. It decides who is
// asked, never what is answered.

import (
	"iter"
	"net/netip"
	"time"

	"loci/lisp"
)

// Node is one LISP system: any of ITR, ETR, Map-Server and Map-Resolver. It is
// not safe for concurrent use.
type Node struct {
	host    *host
	config  Config
	keyring *Keyring
}

// Miss says that a packet from a local EID found no mapping.
type Miss struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID
}

// Usage says when a map-cache entry last forwarded a packet.
type Usage struct {
	Prefix     lisp.Prefix
	LastUsedAt time.Time
}

// New makes a Node. random fills its argument with unpredictable octets; it is
// called only from within Handle… methods. The effects that set up the data plane
// are ready to be polled.
func New(cfg Config, now time.Time, random func([]byte)) (*Node, error) {
	return nil, nil
}

// Configure puts another configuration in force. It touches nothing that did not
// change; one that is refused changes nothing.
func (n *Node) Configure(now time.Time, cfg Config) error { return nil }

// Keyring is the snapshot that Inspect needs. It changes with Configure only.
func (n *Node) Keyring() *Keyring { return n.keyring }

// HandlePacket is Inspect, then HandleReceived or HandleRefusal.
func (n *Node) HandlePacket(now time.Time, local, from netip.AddrPort, b []byte) {}

// HandleReceived acts on a control message that Inspect let pass.
func (n *Node) HandleReceived(now time.Time, r Received) {}

// HandleRefusal counts a packet that Inspect refused.
func (n *Node) HandleRefusal(now time.Time, r *Refusal) {}

// HandleMiss asks for the mapping of a destination, unless that is under way.
func (n *Node) HandleMiss(now time.Time, m Miss) {}

// HandleUsage takes notice of which map-cache entries are in use: those are
// refreshed before their TTL ends, the others removed when idle.
func (n *Node) HandleUsage(now time.Time, usage []Usage) {}

// HandleTimeout does what is due. It works off a bounded number of deadlines: as
// long as NextDeadline is not in the future, call it again.
func (n *Node) HandleTimeout(now time.Time) {}

// NextDeadline is when HandleTimeout wants to be called; ok is false for never.
func (n *Node) NextDeadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Poll takes the next effect.
func (n *Node) Poll() (Effect, bool) { return nil, false }

// AdoptMapCache takes over what the data plane kept through a restart, TTLs and
// ages included. Call it right after New.
func (n *Node) AdoptMapCache(now time.Time, entries []MapCacheEntry) {}

// Shutdown is the last call: with ETRConfig.WithdrawOnShutdown it withdraws the
// registrations. The data plane keeps what it has.
func (n *Node) Shutdown(now time.Time) {}

// MapCache yields the map-cache in the order of prefixes.
func (n *Node) MapCache() iter.Seq[MapCacheStatus] { return func(func(MapCacheStatus) bool) {} }

// Database yields the EID-Prefixes of this site in their order.
func (n *Node) Database() iter.Seq[DatabaseMapping] { return func(func(DatabaseMapping) bool) {} }

// Registrations yields what the Map-Server knows, in the order of prefixes, one
// value for each xTR of a prefix.
func (n *Node) Registrations() iter.Seq[Registration] { return func(func(Registration) bool) {} }

// MapServers yields how the registration with each Map-Server stands.
func (n *Node) MapServers() iter.Seq[MapServerStatus] { return func(func(MapServerStatus) bool) {} }

// Pending yields the Map-Requests under way, in the order of prefixes.
func (n *Node) Pending() iter.Seq[PendingRequest] { return func(func(PendingRequest) bool) {} }

// Counters yields every counter by name, in the order of CounterList.
func (n *Node) Counters() iter.Seq2[string, uint64] { return n.host.counters.all() }

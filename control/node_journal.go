// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// The Map-Server's journal: read back at a start, begun anew.

// ReplayJournal takes over what an earlier run left: pieces of its journal, oldest first.
// Call it right after New, before anything else. Entries that are damaged are left out, and
// what is whole behind them counts: the error is a *JournalDamage.
func (n *Node) ReplayJournal(now time.Time, octets []byte) error {
	n.host.Advance(now)
	if n.mapServer == nil {
		return nil
	}
	return n.mapServer.ReplayJournal(octets)
}

// Checkpoint makes the journal begin anew: everything that counts is written again, a piece per event-loop iteration.
func (n *Node) Checkpoint(now time.Time) {
	n.host.Advance(now)
	if n.mapServer != nil {
		n.mapServer.Journal.Checkpoint()
	}
}

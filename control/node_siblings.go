// SPDX-License-Identifier: Apache-2.0

package control

// What the Node does for siblings: it brings their words and our own decisions into the
// ETR's Database, and tells them when our locators changed.

import (
	"iter"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/message"
	"loci/control/internal/siblings"
)

// configureSiblings takes over siblings and Database.
func (n *Node) configureSiblings(configs []SiblingConfig, d *database.Database) {
	if n.itr == nil { // only the ITR takes their answers
		configs = nil
	} else {
		n.siblings.UseCache(n.itr, n.itr.Requester.AskFor)
	}
	n.siblings.Configure(configs, d)
	n.siblings.Act(n.below)
}

// below is a random duration up to d.
func (n *Node) below(d time.Duration) time.Duration {
	if n.itr == nil {
		return 0
	}
	return n.itr.Prober.Below(d)
}

// handleSiblingTimeout asks a sibling, or judges our own paths.
func (n *Node) handleSiblingTimeout(id uint32) {
	if id != siblings.CoreTimer {
		n.siblings.Ask(int(id))
		n.siblingsChanged(false)
		return
	}
	resolvers := siblings.Resolution{Silent: n.itr.Requester.Resolvers.Silent(), Last: n.itr.Requester.Last}
	resolvers.Others = n.etr != nil && n.etr.Registrar.Acknowledges()
	if n.siblings.Judge(n.itr.Prober, resolvers) {
		n.itr.Requester.AskAgain()
	}
	n.siblingsChanged(false)
}

// handleMapReply takes what answers a question of ours to a sibling.
func (n *Node) handleMapReply(m *message.MapReply) {
	n.host.Count(counter.MapReplyReceived)
	if n.isAboutOwn(m) {
		return
	}
	taken, changed := n.siblings.Takes(m)
	if !taken {
		n.itr.HandleMapReply(m)
		n.siblings.Inquiries.ResolverAnswered(n.itr.Requester.Resolvers.LastAnswer())
		return
	}
	n.siblingsChanged(changed)
}

// siblingsChanged decides anew, and announces our R bits when they changed.
func (n *Node) siblingsChanged(theirs bool) {
	ours := n.siblings.Act(n.below)
	if !ours && !theirs {
		return
	}
	n.etr.Announce(n.current.database, false)
	n.siblings.TellChange()
}

// dataCame notes when data packets last came to us.
func (n *Node) dataCame(heard []Heard) {
	for _, h := range heard {
		n.siblings.Inquiries.HandleData(n.host.Instant(h.LastHeardAt))
	}
}

// Siblings yields what is known of the other xTRs of the site, as configured.
func (n *Node) Siblings() iter.Seq[SiblingStatus] { return n.siblings.Status() }

// SiblingPath says who gets the site's packets.
func (n *Node) SiblingPath() SiblingPathStatus { return n.siblings.SiblingPath() }

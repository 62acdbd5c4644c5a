// SPDX-License-Identifier: Apache-2.0

package control

// What the Node does for siblings: it brings their words and our own decisions into the
// ETR's Database, and tells them when our locators changed.

import (
	"iter"
	"time"
)

// configureSiblings takes over siblings and Database.
func (n *Node) configureSiblings(configs []SiblingConfig, d *database) {
	if n.itr == nil { // nobody takes their answers
		configs = nil
	}
	n.siblings.configure(configs, d)
	n.siblings.act(n.below)
}

// below is a random duration up to d.
func (n *Node) below(d time.Duration) time.Duration {
	if n.itr == nil {
		return 0
	}
	return n.itr.prober.below(d)
}

// handleSiblingTimeout asks a sibling, or judges our own paths.
func (n *Node) handleSiblingTimeout(id uint32) {
	if id != coreTimer {
		n.siblings.ask(int(id))
		n.siblingsChanged(false)
		return
	}
	s := n.siblings
	s.timers.set(coreTimer, n.host.after(s.path.judge(s, n.itr.prober, n.itr.resolvers.silent())))
	if s.path.lost && s.path.bySilence {
		n.itr.askAgain()
	}
	n.siblingsChanged(false)
}

// handleMapReply takes what answers a question of ours to a sibling.
func (n *Node) handleMapReply(m *mapReply) {
	n.host.count(MapReplyReceived)
	taken, changed := n.siblings.takes(m)
	if !taken {
		n.itr.handleMapReply(m)
		return
	}
	n.siblingsChanged(changed)
}

// siblingsChanged decides anew, and puts R bits in force when they changed.
func (n *Node) siblingsChanged(theirs bool) {
	ours := n.siblings.act(n.below)
	if !ours && !theirs {
		return
	}
	n.etr.announce(n.inForce.database, false)
	n.siblings.tellChange()
}

// Siblings yields what is known of the other xTRs of the site, as configured.
func (n *Node) Siblings() iter.Seq[SiblingStatus] { return n.siblings.status() }

// Detour says who gets the site's packets.
func (n *Node) Detour() DetourStatus { return n.siblings.detour() }

// SPDX-License-Identifier: Apache-2.0

package mapsock

// Whether it is worth while to wait awake for a client's next datagram. That costs a core
// for as long as it lasts, and is in vain when the client runs on the same one.

// maxVainPause bounds how many datagrams are waited for asleep after waits in vain.
const maxVainPause = 1023

// pace is what is known of how soon a client sends again.
type pace struct {
	soon      bool // the last datagram came soon
	pause     int  // datagrams to be waited for asleep
	lastPause int  // what pause was after the last wait in vain; 0 when one came since
}

// worthIt reports whether to wait awake for the next datagram.
func (p *pace) worthIt() bool {
	if p.pause > 0 {
		p.pause--
		return false
	}
	return p.soon
}

// came notes that a datagram came while it was waited for awake.
func (p *pace) came() { p.lastPause = 0 }

// vain notes that none came. After each in a row the pause is twice as long.
func (p *pace) vain() {
	p.soon = false
	p.lastPause = min(2*p.lastPause+1, maxVainPause)
	p.pause = p.lastPause
}

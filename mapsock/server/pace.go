// SPDX-License-Identifier: Apache-2.0

package server

// How a client's next datagram is to be waited for. To wait awake costs a core for as long
// as it lasts, and is in vain when the client runs on the same one.

import "time"

const (
	// eager is how long a client that sends again at once is waited for awake. Between the
	// cores of a virtual machine, to be woken takes longer than all else that a message costs.
	eager = 60 * time.Microsecond
	// lively is a client that sends again within so long.
	lively = time.Millisecond
)

// maxVainPause bounds how many datagrams are waited for asleep after waits in vain.
const maxVainPause = 1023

// pace is what is known of how soon a client sends again.
type pace struct {
	soon      bool // the last datagram came while it would have been waited for awake
	lively    bool // the last datagram came within lively
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

// took notes how long the last datagram was waited for.
func (p *pace) took(wait time.Duration) {
	p.soon, p.lively = wait < eager, wait < lively
}

// vain notes that none came. After each in a row the pause is twice as long.
func (p *pace) vain() {
	p.lastPause = min(2*p.lastPause+1, maxVainPause)
	p.pause = p.lastPause
}

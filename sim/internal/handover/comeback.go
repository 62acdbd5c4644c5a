// SPDX-License-Identifier: Apache-2.0

package handover

// A router whose links are up again: it takes its packets back from the sibling that has them when the core has
// answered it, and not with the carrier, for packets may not pass yet; soon then, and at once where the sibling has
// no path any more.

import (
	"fmt"
	"time"

	"loci/control"
)

const (
	// nothingToAsk is how long a router waits for an answer where it can ask nothing.
	nothingToAsk = 5 * time.Second
	// takenBackWithin is how long after the first answer the packets are taken back: the RLOCs of the other
	// family may need longer.
	takenBackWithin = 8 * time.Second
)

// Comeback is how a router stood as a sibling, and why its packets were given away.
type Comeback struct {
	cause    control.SiblingPathReason
	upAt     time.Duration // since when a link is up, 0 while none is
	provenAt time.Duration // when the core was first seen to answer since, 0 for not yet
	poorAt   time.Duration // when it was last no good sibling
	insideAt time.Duration // when its link inside the site was last cut
}

// Links notes whether a link is up, by what the router is configured with.
func (c *Comeback) Links(now time.Duration, isUp bool) {
	switch {
	case !isUp:
		c.upAt, c.provenAt = 0, 0
	case c.upAt == 0:
		c.upAt, c.provenAt = now, 0
	}
}

// Stands notes whether it may not be good to have another's packets, and whether its link inside the site is cut.
func (c *Comeback) Stands(now time.Duration, isPoor, isCut bool) {
	if isPoor {
		c.poorAt = now
	}
	if isCut {
		c.insideAt = now
	}
}

// Gives notes why the router gives its packets away.
func (c *Comeback) Gives(why control.SiblingPathReason) { c.cause = why }

// JudgeWait says what is wrong with a router whose packets stay with a sibling until the core answers, nothing if it is right.
func (c *Comeback) JudgeWait(now time.Duration) (wrong string) {
	if c.upAt == 0 || c.provenAt == 0 || now-c.provenAt <= takenBackWithin {
		return ""
	}
	return fmt.Sprintf("%s after the core answered it", now-c.provenAt)
}

// NoteProof notes when the core was first seen to answer what was sent since a link is up.
func (c *Comeback) NoteProof(now time.Duration, w *Watch) {
	if c.upAt != 0 && c.provenAt == 0 && w.surelyAt >= c.upAt {
		c.provenAt = now
	}
}

// JudgeBack says what is wrong with a router that takes back what it gave because its links were down: silent is how long a sibling
// may say nothing before it is not relied on.
func (c *Comeback) JudgeBack(now, silent time.Duration, w *Watch, by *Comeback) (wrong string) {
	isLately := func(at time.Duration) bool { return at != 0 && now-at < silent+nothingToAsk }
	switch {
	case c.cause != control.SiblingPathRLOCsDown || c.upAt == 0 || now-c.upAt >= nothingToAsk:
	case isLately(by.poorAt) || isLately(c.insideAt) || w.isProven(c.upAt):
	default:
		return fmt.Sprintf("%s after its links came up, and the core has not answered it", now-c.upAt)
	}
	return ""
}

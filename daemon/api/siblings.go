// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/lisp"
)

// What `loci show siblings` tells.

// Siblings tells of the other xTRs of the site.
type Siblings struct {
	Siblings          []Sibling  `json:"siblings"`
	ForwardingSibling string     `json:"forwarding_sibling"` // that forwards this site's packets, because this router has no path
	Reason            string     `json:"reason"`
	Since             *time.Time `json:"since"`            // of the last change
	UnansweredSince   *time.Time `json:"unanswered_since"` // when the core last answered this router, null while it does
}

// Sibling is another xTR of the site, and what it says of its own locators.
type Sibling struct {
	Address     netip.Addr       `json:"address"`
	Answers     bool             `json:"answers"`
	HeardAt     *time.Time       `json:"heard_at"`
	Locators    []SiblingLocator `json:"locators"`
	CoreAskedAt *time.Time       `json:"core_asked_at"` // when it last said whether the core answers it; it is asked while the core does not answer this router
	CoreAnswers bool             `json:"core_answers"`  // what it said then
	DataAt      *time.Time       `json:"data_at"`       // when data packets last came to it, as it said then
}

// SiblingLocator is a sibling's own locator.
type SiblingLocator struct {
	RLOC      lisp.RLOC `json:"rloc"`
	Reachable bool      `json:"reachable"`
}

// Siblings asks for the other xTRs of the site.
func (c *Client) Siblings(ctx context.Context) (s Siblings, err error) {
	return s, c.get(ctx, PathSiblings, &s)
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"loci/lisp"
)

// What `loci show subflows` tells.

// Subflow is a subflow of Multipath TCP, as this router sends its packets.
type Subflow struct {
	InstanceID      lisp.InstanceID `json:"instance_id"`
	Source          lisp.EID        `json:"source"`
	SourcePort      uint16          `json:"source_port"`
	Destination     lisp.EID        `json:"destination"`
	DestinationPort uint16          `json:"destination_port"`
	// that it is bound to, of a path its first hop; nil where it is not bound
	RLOC    *lisp.RLOC `json:"rloc"`
	Path    []Hop      `json:"explicit_locator_path"` // without bits, which its mapping has
	InForce bool       `json:"in_force"`              // the data plane has the flow bound to that path
	// first, session, eids, adopted, asked or answered: by what its path was chosen
	Why        string      `json:"why"`
	AnsweredBy *netip.Addr `json:"answered_by"` // the ETR that chose its path; nil where this router did
	State      string      `json:"state"`       // opened, established or closing
	// tells sessions apart while they last; nil where it is not known
	Session     *uint32    `json:"session"`
	Token       *uint32    `json:"token"` // of the session; nil where its key is not known
	OpenedAt    time.Time  `json:"opened_at"`
	LastHeardAt *time.Time `json:"last_heard_at"` // nil where nothing followed its SYN
}

// PathText is the path that the subflow is bound to, empty for none.
func (s *Subflow) PathText() string {
	switch {
	case s.RLOC == nil:
		return ""
	case len(s.Path) == 0:
		return s.RLOC.String()
	}
	return PathText(s.Path)
}

// Subflows asks an ITR for the subflows that it knows.
func (c *Client) Subflows(ctx context.Context) (list []Subflow, err error) {
	return list, c.get(ctx, PathSubflows, &list)
}

// AnsweredSubflow is a flow to an EID of this site whose path this ETR chose for the ITR that asked.
type AnsweredSubflow struct {
	InstanceID      lisp.InstanceID `json:"instance_id"`
	Source          lisp.EID        `json:"source"`
	SourcePort      uint16          `json:"source_port"`
	Destination     lisp.EID        `json:"destination"`
	DestinationPort uint16          `json:"destination_port"`
	RLOC            lisp.RLOC       `json:"rloc"`                  // of a path its first hop
	Path            []Hop           `json:"explicit_locator_path"` // without bits, which its mapping has
	AskedBy         netip.Addr      `json:"asked_by"`              // the ITR
	ChosenAt        time.Time       `json:"chosen_at"`             // when the flow was first asked for
	// when it was last; it is forgotten two minutes later
	AskedAt time.Time `json:"asked_at"`
}

// PathText is the path that was chosen.
func (s *AnsweredSubflow) PathText() string {
	if len(s.Path) == 0 {
		return s.RLOC.String()
	}
	return PathText(s.Path)
}

// AnsweredSubflows asks an ETR for the flows whose paths it chose.
func (c *Client) AnsweredSubflows(ctx context.Context) (list []AnsweredSubflow, err error) {
	return list, c.get(ctx, PathAnsweredSubflows, &list)
}

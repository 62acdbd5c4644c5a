// SPDX-License-Identifier: Apache-2.0

package api

// The answer of `loci status`: one verdict, and the problems behind it.

import (
	"context"
	"time"
)

// PathHealth answers with a Health.
const PathHealth = "/v1/health"

// Health is the verdict about a daemon.
type Health struct {
	Verdict  string          `json:"verdict"` // healthy, or problems where one is critical or a warning
	At       time.Time       `json:"at"`
	Ready    bool            `json:"ready"`
	Roles    []string        `json:"roles"`
	Critical int             `json:"critical_problems"`
	Warnings int             `json:"warning_problems"`
	Notices  int             `json:"notices"`
	Problems []HealthProblem `json:"problems"` // the most urgent first
}

// The verdicts.
const (
	VerdictHealthy  = "healthy"
	VerdictProblems = "problems"
)

// HealthProblem is one problem.
type HealthProblem struct {
	Kind    string  `json:"kind"`
	Urgency Urgency `json:"urgency"`
	// an address, an EID-Prefix, an interface, the name of a host, a place in a file
	Subject string     `json:"subject"`
	What    string     `json:"what"`
	Since   *time.Time `json:"since"`  // null where that is not known
	Effect  string     `json:"effect"` // what it costs
	Remedy  string     `json:"remedy"` // what to do
}

// Urgency says how soon a problem needs somebody.
type Urgency string

// The urgencies.
const (
	UrgencyCritical Urgency = "critical" // packets are lost, or EIDs cannot be found
	UrgencyWarning  Urgency = "warning"  // it works, with less than it should have, or not for long
	UrgencyNotice   Urgency = "notice"   // it works: something to know, or to mend some day
)

// Health asks for the verdict.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.get(ctx, PathHealth, &h)
}

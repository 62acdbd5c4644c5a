// SPDX-License-Identifier: Apache-2.0

// Package api is what a running Loci daemon tells over its control socket: HTTP
// with JSON bodies over a Unix socket. It holds the documents, the paths and the
// client; the server is in package daemon. It never changes anything by itself.
package api

// Paths of the control socket. All are GET but PathReload.
const (
	PathStatus           = "/v1/status"
	PathMapCache         = "/v1/map-cache"
	PathDatabase         = "/v1/database"
	PathMapRequests      = "/v1/map-requests" // under way
	PathRegistrations    = "/v1/registrations"
	PathLocators         = "/v1/locators"
	PathSubflows         = "/v1/subflows"
	PathAnsweredSubflows = "/v1/answered-subflows"
	PathInterfaces       = "/v1/interfaces"
	PathSiblings         = "/v1/siblings"
	PathTranslations     = "/v1/translations"
	PathNAT              = "/v1/nat"
	PathCounters         = "/v1/counters"
	PathEvents           = "/v1/events" // a stream of Event, one JSON object a line; EventQuery
	PathReload           = "/v1/reload" // POST: read the configuration file again
)

// DefaultSocket is where the daemon listens when its configuration does not say.
const DefaultSocket = "/run/loci/control.sock"

// Problem is the body of every answer that is not 200.
type Problem struct {
	Message  string          `json:"message"`
	Problems []ConfigProblem `json:"problems"` // of a configuration that was not reloaded
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// Details are the mistakes of a configuration, for a program that prints its failures as JSON.
func (p *Problem) Details() any { return p.Problems }

// ConfigProblem is a mistake in a configuration, or a warning. Line and column count from 1; both are 0 for the file as a whole.
type ConfigProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"` // of the key, as etr.local-eids[0].eid
	Message string `json:"message"`
	Hint    string `json:"hint"` // what to do about it
}

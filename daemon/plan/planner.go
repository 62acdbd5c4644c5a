// SPDX-License-Identifier: Apache-2.0

package plan

// The planner: what it makes a plan from, and the problems and waits that it collects.

import (
	"loci/config"
	"loci/daemon/hostnet"
	"loci/daemon/trouble"
)

// planner collects problems while it makes a plan.
type planner struct {
	config   *config.Config
	host     hostnet.Host
	problems []error
	waits    []hostWait
	doubts   []trouble.Trouble // what is allowed on this host, but probably not meant
	choices  choices
}

// where is the path of a value in the file: keys and indexes.
type where []any

// problem reports something wrong with a value.
func (p *planner) problem(at where, message, hint string) {
	p.problems = append(p.problems, p.config.Problem(message+": "+hint, at...))
}

// doubt warns of a value.
func (p *planner) doubt(at where, message, hint string) {
	place := p.config.Problem(message, at...)
	p.doubts = append(p.doubts, trouble.Trouble{Kind: trouble.Configuration, Subject: place.Position.String(), What: place.Error(), Remedy: hint})
}

// wait reports something that the host does not have yet.
func (p *planner) wait(at where, link, message string) {
	p.waits = append(p.waits, hostWait{link: link, what: message, problem: p.config.Problem(message+": waiting for it", at...)})
}

// hostWait is something that the host does not have yet.
type hostWait struct {
	link    string // the interface that is not there, empty when it is something else
	what    string
	problem error // with its place in the file
}

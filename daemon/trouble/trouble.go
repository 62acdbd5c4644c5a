// SPDX-License-Identifier: Apache-2.0

// Package trouble is what works less well on a router than it could, in parts that `loci status` shows apart: of its configuration, its
// host, its data plane and its store. It finds nothing out, and judges nothing.
package trouble

import (
	"strings"
	"time"
)

// Kind names a kind of trouble, for programs.
type Kind string

// The kinds.
const (
	Configuration     Kind = "configuration"
	FirewallBypassed  Kind = "firewall-bypassed"
	ForwardingOff     Kind = "ip-forwarding-off"
	StaleDefaultRoute Kind = "stale-default-route"
	ReversePathFilter Kind = "reverse-path-filter"
	RouteRefused      Kind = "route-refused"
	Pins              Kind = "pins"
	PlaneRefused      Kind = "data-plane-refused"
	PlaneLost         Kind = "data-plane-lost"
	NotStored         Kind = "registrations-not-stored"
	Translation       Kind = "lisp-nat"
)

// Kinds are all of them.
var Kinds = []Kind{
	Configuration, FirewallBypassed, ForwardingOff, StaleDefaultRoute, ReversePathFilter, RouteRefused, Pins,
	PlaneRefused, PlaneLost, NotStored, Translation,
}

// Trouble is one thing. All but Kind and What may be empty.
type Trouble struct {
	Kind    Kind
	Subject string // what it is about: an interface, a file, a setting
	What    string
	Effect  string
	Remedy  string
	Since   time.Time
}

// String is the trouble in one line, as the log has it.
func (t Trouble) String() string {
	parts := []string{t.What}
	for _, part := range []string{t.Effect, t.Remedy} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Lines are several troubles, a line each.
func Lines(list []Trouble) (lines []string) {
	for _, t := range list {
		lines = append(lines, t.String())
	}
	return lines
}

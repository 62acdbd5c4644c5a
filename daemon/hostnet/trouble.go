// SPDX-License-Identifier: Apache-2.0

package hostnet

// Trouble: what works less well than it could, in parts that `loci status` shows apart.

import (
	"strings"
	"time"
)

// TroubleKind names a kind of trouble, for programs.
type TroubleKind string

// The kinds.
const (
	TroubleConfiguration     TroubleKind = "configuration"
	TroubleFirewallBypassed  TroubleKind = "firewall-bypassed"
	TroubleForwardingOff     TroubleKind = "ip-forwarding-off"
	TroubleStaleDefaultRoute TroubleKind = "stale-default-route"
	TroubleReversePathFilter TroubleKind = "reverse-path-filter"
	TroubleRouteRefused      TroubleKind = "route-refused"
	TroublePins              TroubleKind = "pins"
	TroublePlaneRefused      TroubleKind = "data-plane-refused"
	TroublePlaneLost         TroubleKind = "data-plane-lost"
	TroubleNotStored         TroubleKind = "registrations-not-stored"
)

// TroubleKinds are all of them.
var TroubleKinds = []TroubleKind{
	TroubleConfiguration, TroubleFirewallBypassed, TroubleForwardingOff, TroubleStaleDefaultRoute, TroubleReversePathFilter, TroubleRouteRefused, TroublePins,
	TroublePlaneRefused, TroublePlaneLost, TroubleNotStored,
}

// Trouble is one thing. All but Kind and What may be empty.
type Trouble struct {
	Kind    TroubleKind
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

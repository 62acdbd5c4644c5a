// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/format"
	"loci/daemon/api"
	"loci/internal/table"
)

// loci show status.

// newShowStatusCommand shows the state of the daemon. Whether an RLOC is up is another answer's: the text has it as
// well.
func newShowStatusCommand(flags *ask.Flags) *cobra.Command {
	var own []api.OwnRLOC
	ask := func(c *api.Client, ctx context.Context) (s api.Status, err error) {
		if s, err = c.Status(ctx); err != nil || flags.AsJSON || len(s.Interfaces) == 0 {
			return s, err
		}
		interfaces, err := c.Interfaces(ctx)
		own = interfaces.RLOCs
		return s, err
	}
	return showSubcommand(flags, "status", "State of the daemon", ask, func(out io.Writer, s api.Status) error { return printStatus(out, s, own) })
}

func printStatus(out io.Writer, s api.Status, own []api.OwnRLOC) error {
	now := time.Now()
	state := "starting"
	if s.Ready {
		state = "ready"
	}
	if len(own) > 0 && !slices.ContainsFunc(own, func(o api.OwnRLOC) bool { return o.State == "up" }) {
		state += ", no RLOC up"
	}
	rows := []string{
		fmt.Sprintf("state\t%s, up %s, pid %d", state, format.Age(now, &s.StartedAt), s.PID),
		"version\t" + s.Version,
		"roles\t" + strings.Join(s.Roles, ", "),
		"configuration\t" + s.ConfigFile,
	}
	for _, p := range s.Policies {
		rows = append(rows, p.Role+"\t"+policyText(p))
	}
	if s.RecursionDepth > 1 {
		rows = append(rows, fmt.Sprintf("recursion depth\t%d layers of encapsulation", s.RecursionDepth))
	}
	if s.Engine != "" {
		engine := s.Engine
		if s.EngineReason != "" {
			engine += ", because of " + s.EngineReason
		}
		rows = append(rows, "data plane\t"+engine, fmt.Sprintf("map-cache\t%d entries, %d pending", s.MapCacheSize, s.Pending))
	}
	for _, r := range s.LocalRLOCs {
		rows = append(rows, "local RLOC\t"+r.String())
	}
	for _, i := range s.Interfaces {
		rows = append(rows, fmt.Sprintf("%s interface\t%s", i.Side, interfaceText(i)))
		if i.HookWarning != "" {
			rows = append(rows, fmt.Sprintf("warning\tinterface %s: %s", i.Name, i.HookWarning))
		}
	}
	for _, m := range s.MapServers {
		rows = append(rows, "Map-Server\t"+mapServerText(now, m))
		for _, line := range format.LackingLines(now, m) {
			rows = append(rows, "not acknowledged\t"+line+" at "+format.MapServerName(m))
		}
	}
	for _, r := range s.MapResolverStates {
		rows = append(rows, "Map-Resolver\t"+mapResolverText(now, r))
	}
	if slices.Contains(s.Roles, "map-server") {
		rows = append(rows, fmt.Sprintf("registrations\t%d", s.Registrations))
	}
	for _, w := range s.Waiting {
		rows = append(rows, "waiting\t"+w)
	}
	for _, w := range append(s.Missing, s.Warnings...) {
		rows = append(rows, "warning\t"+w)
	}
	columns := table.New(out)
	columns.Rows(rows...)
	return columns.Flush()
}

// policyText says what a relay does in an Instance-ID.
func policyText(p api.Policy) string {
	does := map[string]string{"rtr": "relays from and to", "pitr": "encapsulates to", "petr": "forwards from"}[p.Role]
	text := fmt.Sprintf("%s %s", does, prefixesText(p.EIDPrefixes))
	if len(p.Sources) > 0 {
		text += ", sources " + prefixesText(p.Sources)
	}
	if p.InstanceID != 0 {
		text += ", Instance-ID " + p.InstanceID.String()
	}
	return text
}

// prefixesShown is how many prefixes a line has.
const prefixesShown = 8

func prefixesText(list []netip.Prefix) string {
	var words []string
	for _, p := range list[:min(len(list), prefixesShown)] {
		words = append(words, p.String())
	}
	if more := len(list) - prefixesShown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

func mapServerText(now time.Time, m api.MapServer) string {
	text := fmt.Sprintf("%s %s, EID-Prefixes %d, last Map-Notify %s", format.MapServerName(m), m.State, m.EIDPrefixes, format.Age(now, m.LastNotifyAt))
	if m.Unacknowledged > 0 {
		text += fmt.Sprintf(", unacknowledged since %d", m.Unacknowledged)
	}
	if m.NextRegisterAt != nil {
		text += ", next Map-Register in " + format.Until(now, m.NextRegisterAt, false)
	}
	return text
}

func mapResolverText(now time.Time, r api.MapResolver) string {
	text := r.Address + " " + r.State
	if r.RoundTrip != nil {
		text += fmt.Sprintf(", answers after %.3fms on average, last %s ago", r.RoundTrip.Milliseconds(), format.Age(now, r.LastReplyAt))
	}
	return text
}

// interfaceText is an interface with its Instance-ID, where packets are taken and why.
func interfaceText(i api.Interface) string {
	text := i.Name
	if i.VLAN != 0 {
		text += fmt.Sprintf(" VLAN %d", i.VLAN)
	}
	text += fmt.Sprintf(", Instance-ID %s", i.InstanceID)
	if i.Forwarding == "stack" {
		text += ", forwarding stack"
	}
	if i.Hook == "" {
		return text
	}
	return fmt.Sprintf("%s, hook %s (%s)", text, i.Hook, i.HookReason)
}

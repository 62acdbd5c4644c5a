// SPDX-License-Identifier: Apache-2.0

package main

// How loci show prints what it was told.

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/internal/table"
)

// printRows prints aligned columns under a heading, or a word when there are none.
func printRows(out io.Writer, heading string, rows []string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "none")
		return err
	}
	columns := table.New(out)
	columns.Rows(heading)
	columns.Rows(rows...)
	return columns.Flush()
}

const mapCacheHeading = "EID-PREFIX\tLOCATOR priority/weight\tAGE\tEXPIRES\tLAST USED\tPACKETS"

func mapCacheRows(now time.Time, e api.MapCacheEntry) []string {
	first, rest := locatorLines(e.Locators)
	switch {
	case e.ProxyETR:
		first += " (proxy ETR)"
	case e.Gleaned:
		first += " (gleaned)"
	case e.Stale:
		first += " (stale)"
	case e.Action != nil:
		first = e.Action.String()
	}
	for _, l := range e.SecondLayers {
		rest = append(rest, "\t"+secondLayerText(l)+"\t\t\t\t")
	}
	return append([]string{fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d", e.EIDPrefix, first, age(now, &e.CreatedAt), untilText(now, e.ExpiresAt, e.Static), age(now, e.LastUsedAt), e.Packets)}, rest...)
}

// secondLayerText says what becomes of packets to an RLOC that is an EID itself.
func secondLayerText(l api.SecondLayer) string {
	text := fmt.Sprintf("  %s is an EID of %s, through %s", l.RLOC, l.EIDPrefix, l.Through)
	if l.Problem != "" {
		text += ": dropped, " + l.Problem
	}
	if l.LeadsBack {
		text += " (leads back)"
	}
	return text
}

const mapRequestHeading = "EID-PREFIX\tWHY\tSTATE\tAGE\tSENT\tLAST TO\tNEXT"

func mapRequestRows(now time.Time, r api.PendingMapRequest) []string {
	why := "asked for again"
	switch {
	case r.SMRInvoked:
		why = "an SMR"
	case r.SourceEID != "":
		why = "a packet from " + r.SourceEID
	}
	return []string{fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s", r.EIDPrefix, why, r.State, age(now, &r.StartedAt), r.Tries, r.MapResolver, untilText(now, &r.NextAt, false))}
}

const databaseHeading = "EID-PREFIX\tLOCATOR priority/weight\tTTL"

func databaseRows(_ time.Time, e api.DatabaseEntry) []string {
	first, rest := locatorLines(e.Locators)
	return append([]string{fmt.Sprintf("%s\t%s\t%s", e.EIDPrefix, first, ttlText(e.TTL))}, rest...)
}

// ttlText is a lifetime in a mapping's own unit.
func ttlText(ttl *jsondoc.Seconds) string {
	if ttl == nil {
		return "unlimited"
	}
	return fmt.Sprintf("%.0fm", ttl.Duration().Minutes())
}

const registrationHeading = "EID-PREFIX\tLOCATOR priority/weight\tSOURCE\tSITE\tIN FORCE\tFLAGS\tKEY\tAGE\tEXPIRES"

func registrationRows(now time.Time, e api.Registration) []string {
	first, rest := locatorLines(e.Locators)
	return append([]string{fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s", e.EIDPrefix, first, e.ETR, e.Site, yesOrNo(e.InForce), registrationFlags(e), e.KeyID, age(now, &e.FirstRegisteredAt), untilText(now, &e.ExpiresAt, false))}, rest...)
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// registrationFlags are the bits of a Map-Register (RFC 9301 s.5.6) by their letters there.
func registrationFlags(e api.Registration) string {
	flags := ""
	for _, f := range []struct {
		set    bool
		letter string
	}{{e.ProxyReply, "P"}, {e.UseRecordTTL, "T"}, {e.MergeRequest, "a"}, {e.WantMapNotify, "M"}} {
		if f.set {
			flags += f.letter
		}
	}
	if flags == "" {
		return "-"
	}
	return flags
}

func printLocators(out io.Writer, locators []api.LocatorState) error {
	now := time.Now()
	var rows []string
	for _, l := range locators {
		side, since, roundTrip := "remote", "", "\t\t"
		switch {
		case l.Local:
			side = "local"
		case l.ProxyETR:
			side = "proxy ETR"
		}
		if l.ChangedAt != nil {
			since = age(now, l.ChangedAt)
		}
		if l.RoundTrips != nil && l.RoundTrip != nil {
			roundTrip = fmt.Sprintf("%.3fms\t%.3fms\t%.3fms", l.RoundTrip.Milliseconds(), l.RoundTrips.Median.Milliseconds(), l.RoundTrips.Percentile99.Milliseconds())
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d", locatorText(l), l.State, since, l.Reason, roundTrip, pathMTU(l), echoText(now, l.EchoNonce), heardText(now, l), dataPathText(now, l.DataPath), side, l.EIDPrefixes))
	}
	return printRows(out, "RLOC\tSTATE\tSINCE\tREASON\tROUND TRIP\tMEDIAN\t99 %\tMTU\tECHO\tHEARD\tDATA PATH\tSIDE\tEID-PREFIXES", rows)
}

// locatorText is an RLOC, or a path with the hop that is next.
func locatorText(l api.LocatorState) string {
	if len(l.Path) == 0 {
		return l.RLOC.String()
	}
	text := api.PathText(l.Path)
	if l.NextHop != nil && !l.Local {
		text += ", next " + l.NextHop.String()
	}
	return text
}

// pathMTU is what the path to a locator carries; "<" says that the route promises more.
func pathMTU(l api.LocatorState) string {
	switch {
	case l.PathMTU == nil:
		return ""
	case l.MTULearnt:
		return fmt.Sprintf("<%d", *l.PathMTU)
	}
	return strconv.Itoa(*l.PathMTU)
}

// heardText is when data packets last came from a locator.
func heardText(now time.Time, l api.LocatorState) string {
	switch {
	case l.LastHeardAt == nil:
		return ""
	case l.Silent:
		return "silent for " + age(now, l.LastHeardAt)
	}
	return age(now, l.LastHeardAt) + " ago"
}

// dataPathText is what the daemon's checks tell of the way to a router.
func dataPathText(now time.Time, d *api.DataPath) string {
	switch {
	case d == nil:
		return ""
	case d.Since != nil && d.Octets != nil && d.State == "large-packets-lost":
		return fmt.Sprintf("loses %d octets for %s", *d.Octets, age(now, d.Since))
	case d.Since != nil:
		return "lost for " + age(now, d.Since)
	case d.AnsweredAt != nil:
		return d.State + " " + age(now, d.AnsweredAt) + " ago"
	}
	return "not known"
}

// echoText is the last news of Echo-Nonce with a locator.
func echoText(now time.Time, e *api.EchoNonce) string {
	switch {
	case e == nil:
		return ""
	case e.Fails:
		return "missing since " + age(now, e.MissingAt)
	case e.EchoedAt != nil && !e.EchoedAt.Before(*e.AskedAt):
		return "came " + age(now, e.EchoedAt) + " ago"
	}
	return "asked for " + age(now, e.AskedAt) + " ago"
}

// trafficCounters are what an operator looks for first, in this order; shown even where they are 0.
var trafficCounters = []string{
	"encapsulated_packets_total", "encapsulated_octets_total", "decapsulated_packets_total", "decapsulated_octets_total",
	"relayed_packets_total", "relayed_octets_total", "native_packets_total",
}

// missCounters are those of packets without a mapping.
var missCounters = []string{"miss_packets_total", "waiting_packets", "waiting_octets", "released_packets_total"}

// counterGroup are rows under a title.
type counterGroup struct {
	title string
	rows  []string
}

// printCounters begins with traffic, drops, misses and refusals. The rest follows; what is 0 is left out of it.
func printCounters(out io.Writer, c api.Counters) error {
	groups := []counterGroup{
		{"TRAFFIC", namedCounters(c.DataPlane, trafficCounters)},
		{"DROPPED PACKETS by reason", largestFirst(c.Drops)},
		{"MISSES", namedCounters(c.DataPlane, missCounters)},
		{"REFUSED MESSAGES by reason", largestFirst(only(c.Control, func(name string) bool { return strings.HasPrefix(name, "refused_") }))},
		{"DATA PLANE", otherCounters(only(c.DataPlane, func(name string) bool {
			return !slices.Contains(trafficCounters, name) && !slices.Contains(missCounters, name)
		}))},
		{"CONTROL PLANE", otherCounters(only(c.Control, func(name string) bool { return !strings.HasPrefix(name, "refused_") }))},
		{"LONGEST TIMES", timeRows(c.Times)},
	}
	columns := table.New(out)
	for i, g := range groups {
		if len(g.rows) == 0 {
			g.rows = []string{"  none"}
		}
		if i > 0 {
			columns.Rows("")
		}
		columns.Rows(g.title)
		columns.Rows(g.rows...)
	}
	return columns.Flush()
}

func only(counters map[string]uint64, wanted func(string) bool) map[string]uint64 {
	chosen := map[string]uint64{}
	for name, value := range counters {
		if wanted(name) {
			chosen[name] = value
		}
	}
	return chosen
}

// namedCounters are rows in the order of the names, for counters that this daemon has.
func namedCounters(counters map[string]uint64, names []string) (rows []string) {
	for _, name := range names {
		if value, has := counters[name]; has {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, value))
		}
	}
	return rows
}

// otherCounters are rows by name, without those that are 0.
func otherCounters(counters map[string]uint64) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if counters[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, counters[name]))
		}
	}
	return rows
}

// largestFirst are rows without those that are 0, the largest first.
func largestFirst(counters map[string]uint64) (rows []string) {
	names := slices.SortedFunc(maps.Keys(counters), func(a, b string) int {
		return cmp.Or(cmp.Compare(counters[b], counters[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		if counters[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%d", name, counters[name]))
		}
	}
	return rows
}

func timeRows(times map[string]jsondoc.Seconds) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(times)) {
		if times[name] != 0 {
			rows = append(rows, fmt.Sprintf("  %s\t%.6f", name, float64(times[name])))
		}
	}
	return rows
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
		fmt.Sprintf("state\t%s, up %s, pid %d", state, age(now, &s.StartedAt), s.PID),
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
		for _, line := range lackingLines(now, m) {
			rows = append(rows, "not acknowledged\t"+line+" at "+mapServerName(m))
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

func mapServerName(m api.MapServer) string {
	if m.Site == "" {
		return m.Address
	}
	return m.Address + " for " + m.Site
}

// lackingShown is how many EID-Prefixes are shown that a Map-Server does not acknowledge.
const lackingShown = 10

// lackingLines tells which EID-Prefixes a Map-Server does not acknowledge, and for how long.
func lackingLines(now time.Time, m api.MapServer) (lines []string) {
	for _, l := range m.Lacking[:min(len(m.Lacking), lackingShown)] {
		lines = append(lines, l.EIDPrefix.String()+" for "+age(now, &l.Since))
	}
	if more := m.LackingCount - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more EID-Prefixes", more))
	}
	return lines
}

func mapServerText(now time.Time, m api.MapServer) string {
	text := fmt.Sprintf("%s %s, EID-Prefixes %d, last Map-Notify %s", mapServerName(m), m.State, m.EIDPrefixes, age(now, m.LastNotifyAt))
	if m.Unacknowledged > 0 {
		text += fmt.Sprintf(", unacknowledged since %d", m.Unacknowledged)
	}
	if m.NextRegisterAt != nil {
		text += ", next Map-Register in " + untilText(now, m.NextRegisterAt, false)
	}
	return text
}

func mapResolverText(now time.Time, r api.MapResolver) string {
	text := r.Address + " " + r.State
	if r.RoundTrip != nil {
		text += fmt.Sprintf(", answers after %.3fms on average, last %s ago", r.RoundTrip.Milliseconds(), age(now, r.LastReplyAt))
	}
	return text
}

// locatorLines gives the first locator and the rows of the others.
func locatorLines(locators []api.Locator) (first string, rest []string) {
	for i, l := range locators {
		text := fmt.Sprintf("%s %d/%d", l.Name(), l.Priority, l.Weight)
		if !l.Reachable {
			text += " unreachable"
		}
		if i == 0 {
			first = text
			continue
		}
		rest = append(rest, "\t"+text+"\t\t\t\t")
	}
	return first, rest
}

func age(now time.Time, at *time.Time) string {
	if at == nil || at.IsZero() {
		return "never"
	}
	return shortDuration(now.Sub(*at))
}

func untilText(now time.Time, at *time.Time, static bool) string {
	if static {
		return "static"
	}
	if at == nil {
		return "never"
	}
	return shortDuration(at.Sub(now))
}

// shortDuration is "3d4h", "2h5m", "1m3s" or "12s".
func shortDuration(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days, hours, minutes, seconds := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
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

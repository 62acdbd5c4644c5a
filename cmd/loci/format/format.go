// SPDX-License-Identifier: Apache-2.0

// Package format has what several commands print of a daemon's answers: rows in columns, times, locator-sets.
package format

import (
	"fmt"
	"io"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/internal/table"
)

// PrintRows prints aligned columns under a heading, or a word when there are none.
func PrintRows(out io.Writer, heading string, rows []string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "none")
		return err
	}
	columns := table.New(out)
	columns.Rows(heading)
	columns.Rows(rows...)
	return columns.Flush()
}

// TTL is a lifetime in a mapping's own unit.
func TTL(ttl *jsondoc.Seconds) string {
	if ttl == nil {
		return "unlimited"
	}
	return fmt.Sprintf("%.0fm", ttl.Duration().Minutes())
}

// LocatorLines gives the first locator and the rows of the others.
func LocatorLines(locators []api.Locator) (first string, rest []string) {
	for i, l := range locators {
		text := fmt.Sprintf("%s %d/%d", l.Name(), l.Priority, l.Weight)
		if l.SourcePort != 0 {
			text += fmt.Sprintf(" from port %d", l.SourcePort)
		}
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

// Age is how long ago something was, or "never".
func Age(now time.Time, at *time.Time) string {
	if at == nil || at.IsZero() {
		return "never"
	}
	return shortDuration(now.Sub(*at))
}

// Until is in how long something comes: "static" or "never" where it does not.
func Until(now time.Time, at *time.Time, static bool) string {
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

// MapServerName is a Map-Server's address, and whose EID-Prefixes are registered there.
func MapServerName(m api.MapServer) string {
	if m.Site == "" {
		return m.Address
	}
	return m.Address + " for " + m.Site
}

// lackingShown is how many EID-Prefixes are shown that a Map-Server does not acknowledge.
const lackingShown = 10

// LackingLines tells which EID-Prefixes a Map-Server does not acknowledge, and for how long.
func LackingLines(now time.Time, m api.MapServer) (lines []string) {
	for _, l := range m.Lacking[:min(len(m.Lacking), lackingShown)] {
		lines = append(lines, l.EIDPrefix.String()+" for "+Age(now, &l.Since))
	}
	if more := m.LackingCount - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more EID-Prefixes", more))
	}
	return lines
}

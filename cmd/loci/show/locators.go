// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show locators.

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
		case l.Peer:
			side = "peer"
		}
		if l.ChangedAt != nil {
			since = format.Age(now, l.ChangedAt)
		}
		if l.RoundTrips != nil && l.RoundTrip != nil {
			roundTrip = fmt.Sprintf("%.3fms\t%.3fms\t%.3fms", l.RoundTrip.Milliseconds(), l.RoundTrips.Median.Milliseconds(), l.RoundTrips.Percentile99.Milliseconds())
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d", locatorText(l), l.State, since, l.Reason, roundTrip, pathMTU(l), echoText(now, l.EchoNonce), heardText(now, l), dataPathText(now, l.DataPath), side, l.EIDPrefixes))
	}
	return format.PrintRows(out, "RLOC\tSTATE\tSINCE\tREASON\tROUND TRIP\tMEDIAN\t99 %\tMTU\tECHO\tHEARD\tDATA PATH\tSIDE\tEID-PREFIXES", rows)
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
		return "silent for " + format.Age(now, l.LastHeardAt)
	}
	return format.Age(now, l.LastHeardAt) + " ago"
}

// dataPathText is what the daemon's checks tell of the way to a router.
func dataPathText(now time.Time, d *api.DataPath) string {
	switch {
	case d == nil:
		return ""
	case d.Since != nil && d.Octets != nil && d.State == "large-packets-lost":
		return fmt.Sprintf("loses %d octets for %s", *d.Octets, format.Age(now, d.Since))
	case d.Since != nil:
		return "lost for " + format.Age(now, d.Since)
	case d.AnsweredAt != nil:
		return d.State + " " + format.Age(now, d.AnsweredAt) + " ago"
	}
	return "not known"
}

// echoText is the last news of Echo-Nonce with a locator.
func echoText(now time.Time, e *api.EchoNonce) string {
	switch {
	case e == nil:
		return ""
	case e.Fails:
		return "missing since " + format.Age(now, e.MissingAt)
	case e.EchoedAt != nil && !e.EchoedAt.Before(*e.AskedAt):
		return "came " + format.Age(now, e.EchoedAt) + " ago"
	}
	return "asked for " + format.Age(now, e.AskedAt) + " ago"
}

// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show map-cache.

const mapCacheHeading = "EID-PREFIX\tLOCATOR priority/weight\tAGE\tEXPIRES\tLAST USED\tPACKETS"

// mapCacheOwner has the roles with a map-cache.
var mapCacheOwner = tableOwner{"an ITR, RTR or PITR", []string{"itr", "rtr", "pitr"}}

func mapCacheRows(now time.Time, e api.MapCacheEntry) []string {
	first, rest := format.LocatorLines(e.Locators)
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
	return append([]string{fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d", e.EIDPrefix, first, format.Age(now, &e.CreatedAt), format.Until(now, e.ExpiresAt, e.Static), format.Age(now, e.LastUsedAt), e.Packets)}, rest...)
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

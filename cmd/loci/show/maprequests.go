// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show map-requests.

const mapRequestHeading = "EID-PREFIX\tWHY\tSTATE\tAGE\tSENT\tLAST TO\tNEXT"

func mapRequestRows(now time.Time, r api.PendingMapRequest) []string {
	why := "asked for again"
	switch {
	case r.SMRInvoked:
		why = "an SMR"
	case r.SourceEID != "":
		why = "a packet from " + r.SourceEID
	}
	return []string{fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s", r.EIDPrefix, why, r.State, format.Age(now, &r.StartedAt), r.Tries, r.MapResolver, format.Until(now, &r.NextAt, false))}
}

// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show database.

const databaseHeading = "EID-PREFIX\tLOCATOR priority/weight\tTTL"

func databaseRows(_ time.Time, e api.DatabaseEntry) []string {
	first, rest := format.LocatorLines(e.Locators)
	return append([]string{fmt.Sprintf("%s\t%s\t%s", e.EIDPrefix, first, format.TTL(e.TTL))}, rest...)
}

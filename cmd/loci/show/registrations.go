// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show registrations.

const registrationHeading = "EID-PREFIX\tLOCATOR priority/weight\tSOURCE\tRTR\tSITE\tIN FORCE\tFLAGS\tKEY\tAGE\tEXPIRES"

func registrationRows(now time.Time, e api.Registration) []string {
	first, rest := format.LocatorLines(e.Locators)
	row := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s", e.EIDPrefix, first, e.ETR, cmp.Or(e.RTR, "-"), e.Site,
		yesOrNo(e.InForce), registrationFlags(e), e.KeyID, format.Age(now, &e.FirstRegisteredAt), format.Until(now, &e.ExpiresAt, false))
	return append([]string{row}, rest...)
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

// SPDX-License-Identifier: Apache-2.0

package mapserver

// Which site may register which EID-Prefixes (RFC 9301 s.5.6, s.8.2), as configured. It knows no registration.

import (
	"loci/control/internal/message"
	"loci/control/internal/table"
	"loci/lisp"
)

// owners are the configured EID-Prefixes with their sites.
type owners struct {
	Prefixes table.Prefixes[message.OwnedPrefix] // of all sites
	sites    *siteTable
}

// Allows reports whether the configuration lets a site register an EID-Prefix.
func (o *owners) Allows(p lisp.Prefix, site *siteState) bool {
	match, owner, ok := o.Prefixes.Longest(p)
	return ok && (match == p || owner.MoreSpecifics) && o.siteAt(owner) == site
}

// siteAt is the site that owns a configured EID-Prefix.
func (o *owners) siteAt(owner message.OwnedPrefix) *siteState { return o.sites.At(owner.Site) }

// SPDX-License-Identifier: Apache-2.0

package config

// Whether registrations last from one Map-Register to the next (RFC 9301 s.8.2), and what
// Map-Servers need to merge those of several xTRs.

import (
	"fmt"
	"slices"
	"time"

	"loci/config/codec"
)

const (
	// usualExpiry is after how long Map-Servers forget a registration, usualInterval how
	// often ETRs register (RFC 9301 s.8.2).
	usualExpiry   = 3 * time.Minute
	usualInterval = time.Minute
)

// validateRegistration warns of registrations that end before they are renewed.
func validateRegistration(c *Config, m MapServerRef, path string) {
	if m.UseRecordTTL {
		validateTTLOfRegistrations(c, m, path)
		return
	}
	expiry, whose := usualExpiry, "a Map-Server drops a registration after 3m by default (RFC 9301 s.8.2)"
	if c.MapServer != nil {
		expiry = c.MapServer.RegistrationTimeout
		whose = "mapping-expiration-timeout of map-server is " + codec.DurationText(expiry)
	}
	validateInterval(c, m, path, expiry, whose)
}

// validateInterval compares the interval of Map-Registers with what ends registrations.
func validateInterval(c *Config, m MapServerRef, path string, expiry time.Duration, whose string) {
	if m.RegistrationInterval >= expiry {
		c.warn(path+".registration-interval", fmt.Sprintf("registration-interval: %s, but %s", codec.DurationText(m.RegistrationInterval), whose),
			"want at most a third of that: between the expiry and the next Map-Register the site cannot be found")
	}
}

// validateTTLOfRegistrations compares the interval with the TTLs that use-record-ttl makes
// the expiry.
func validateTTLOfRegistrations(c *Config, m MapServerRef, path string) {
	shortest := -1
	for i, l := range c.ETR.LocalEIDs {
		if l.Site == m.Site && (shortest < 0 || l.TTLMinutes < c.ETR.LocalEIDs[shortest].TTLMinutes) {
			shortest = i
		}
	}
	if shortest < 0 {
		return
	}
	l := c.ETR.LocalEIDs[shortest]
	ttl := time.Duration(l.TTLMinutes) * time.Minute
	validateInterval(c, m, path, ttl, fmt.Sprintf("with use-record-ttl the registration of %s ends after its record-ttl, %s", l.Prefix(), codec.DurationText(ttl)))
}

// validateExpiry warns of a Map-Server that forgets sites which register as RFC 9301 says.
func validateExpiry(c *Config) {
	if t := c.MapServer.RegistrationTimeout; t <= usualInterval {
		c.warn("map-server.mapping-expiration-timeout", fmt.Sprintf("mapping-expiration-timeout: %s, but ETRs register once a minute by default (RFC 9301 s.8.2)", codec.DurationText(t)),
			"want 3m, or set a shorter registration-interval at every ETR")
	}
}

// validateMerging warns of merged registrations that cannot be told apart.
func validateMerging(c *Config) {
	at := slices.IndexFunc(c.ETR.MapServers, func(m MapServerRef) bool { return m.MergeRequest })
	if at >= 0 && c.RouterID == nil {
		c.warn(fmt.Sprintf("etr.map-servers[%d].merge-request", at), "merge-request: this router has no xTR-ID",
			"Map-Servers tell the merged routers apart by it: add lisp-router-id: {xtr-id: ID}, a different one at each router (uuidgen)")
	}
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// TestPublicInternet refuses what must not be used between sites that do not trust each other, and the mapping system
// while LISP-SEC does not exist. Shows RFC 9301 s.1.1 (5).
// Shows RFC 9301 s.1.1 (5), RFC 9300 s.4.1 (3), RFC 9300 s.9 (5).
func TestPublicInternet(t *testing.T) {
	const head = "public-internet: true\ninterfaces: {site: [lan0], core: [wan0]}\n"
	const static = "itr: {map-cache: {mappings: [{eid: 10.2.0.0/16, rlocs: [{address: 203.0.113.9}]}]}}\n"
	key := func(algorithm string) string {
		return "map-server: {sites: [{name: a, authentication-keys: [{auth-algorithm-id: " + algorithm + ", auth-key-value: long-enough}], eid-prefixes: [{eid: 10.1.0.0/16}]}]}\n"
	}
	for text, want := range map[string]string{
		head + static + "etr: {local-eids: [{eid: 10.1.0.0/16}]}\n":                 "",
		head + static + "etr: {local-eids: [{eid: 10.1.0.0/16, map-version: 3}]}\n": "Map-Versions must not be used",
		head + "itr: {gleaning: true}\n":                                            "gleaning: must not be used",
		head + "itr: {map-resolvers: [192.0.2.1]}\n":                                "LISP-SEC",
		head + "map-resolver: {ms-address: [192.0.2.1]}\n":                          "LISP-SEC",
		head + key("1"): "hmac-sha-1-96 must not be used",
		head + key("3"): "LISP-SEC",
	} {
		_, err := Parse("f", []byte(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("f", []byte(head+key("2"))); err == nil || strings.Contains(err.Error(), "must not be used") {
		t.Errorf("HMAC-SHA-256 without HKDF: %v, want LISP-SEC alone", err)
	}
}

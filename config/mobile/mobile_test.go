// SPDX-License-Identifier: Apache-2.0

package mobile_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"loci/config"
	"loci/config/mobile"
)

const sound = "interfaces: {core: [wlan0]}\nitr: {map-resolvers: [192.0.2.1], proxy-etrs: [{address: 192.0.2.1}]}\n" +
	"etr:\n  map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-value: 5d3c1f0a9b8e7d6c5b4a39281706f5e4}]}]\n" +
	"  local-eids: [10.1.0.7/32, 'fd00:1::7/128']\n"

// TestMistakesOfMobileNodes: each is refused or warned of, with what to do; a sound one is neither.
func TestMistakesOfMobileNodes(t *testing.T) {
	for name, c := range map[string]struct {
		text, problem, warning string
	}{
		"sound":            {text: "mobile-node: {default-route: true}\n" + sound},
		"EIDs":             {text: "mobile-node: {eid-prefixes: [10.0.0.0/8]}\n" + sound},
		"by an RTR always": {text: "mobile-node: {default-route: true}\n" + strings.Replace(strings.Replace(sound, ", proxy-etrs: [{address: 192.0.2.1}]", "", 1), "etr:\n", "etr:\n  nat-traversal: {rtr: always}\n", 1)},
		"no single address": {
			text:    "mobile-node: {default-route: true}\n" + strings.Replace(strings.Replace(sound, "7/32", "6/31", 1), "7/128", "/64", 1),
			problem: "etr.local-eids has no single address",
		},
		"no itr": {
			text: "mobile-node: {default-route: true}\ninterfaces: {core: [wlan0]}\n" + sound[strings.Index(sound, "etr:\n"):], problem: "not encapsulated without itr",
		},
		"both":            {text: "mobile-node: {default-route: true, eid-prefixes: [10.0.0.0/8]}\n" + sound, problem: "remove eid-prefixes"},
		"all by prefix":   {text: "mobile-node: {eid-prefixes: [0.0.0.0/0]}\n" + sound, problem: "default-route: true"},
		"no source route": {text: "mobile-node: {default-route: true}\ndatapath: {source-routes: false}\n" + sound, problem: "needs datapath.source-routes"},
		"user space":      {text: "mobile-node: {default-route: true}\ndatapath: {source-routes: false, engine: user}\n" + sound, problem: "needs datapath.source-routes"},
		"nothing by LISP": {text: "mobile-node: {default-route: false}\n" + sound, warning: "only packets of programs that bind to an EID"},
		"no way to others": {
			text: "mobile-node: {default-route: true}\n" + strings.Replace(sound, ", proxy-etrs: [{address: 192.0.2.1}]", "", 1), warning: "hosts outside LISP cannot answer",
		},
		"not a boolean": {text: "mobile-node: {default-route: 5}\n" + sound, problem: "default-route"},
		"unknown key":   {text: "mobile-node: {default-rout: true}\n" + sound, problem: "default-route"},
	} {
		parsed, err := config.Parse("node.yaml", []byte(c.text))
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: %v, want %q", name, err, c.problem)
		case err != nil:
		case c.warning == "" && len(parsed.Warnings) > 0:
			t.Errorf("%s warns: %v", name, parsed.Warnings)
		case c.warning != "" && (len(parsed.Warnings) != 1 || !strings.Contains(parsed.Warnings[0].Error(), c.warning)):
			t.Errorf("%s warns: %v, want %q", name, parsed.Warnings, c.warning)
		}
	}
}

func TestAddressesAreTheSingleOnes(t *testing.T) {
	var prefixes []netip.Prefix
	for _, text := range []string{"10.1.0.7/32", "10.2.0.0/24", "fd00::7/128", "fd00:2::/64", "10.1.0.7/32"} {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	want := []netip.Addr{netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("fd00::7")}
	if got := mobile.Addresses(prefixes); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

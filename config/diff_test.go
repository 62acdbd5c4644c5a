// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
)

const diffBase = `interfaces: {site: [lan0], core: [wan0, wan1]}
locator-sets:
  uplinks: [{interface: wan0}, {interface: wan1, priority: 2}]
itr:
  map-resolvers: [192.0.2.1, 192.0.2.2]
etr:
  map-servers:
    - {ms-address: 192.0.2.1, authentication-keys: [{auth-key-value: the-first-key}]}
    - {ms-address: 192.0.2.2, authentication-keys: [{auth-key-value: the-second-key}]}
  local-eids:
    - {eid: 10.1.0.0/16, rlocs: uplinks}
    - {eid: 10.1.0.0/16, instance-id: 7, rlocs: [{interface: wan0}]}
`

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new string // of diffBase; pairs are separated by |
		want     []string
	}{
		{"nothing", "", "", nil},
		{"a comment and another way to write the same", "core: [wan0, wan1]}", "core: [\"wan0\",   wan1]} # uplinks", nil},
		{"a default that is written out", "itr:\n", "itr:\n  miss-policy: queue\n", nil},
		{"a word", "itr:\n", "itr:\n  miss-policy: drop\n", []string{"itr.miss-policy: queue -> drop"}},
		{"a nested word", "itr:\n", "itr:\n  wait: {time: 1s}\n", []string{"itr.wait.time: 5s -> 1s"}},
		{"a rate", "itr:\n", "limits: {map-replies: {rate: 1/s}}\nitr:\n", []string{"limits.map-replies.rate: 1/3s -> 1/s"}},
		{"a list of words", "192.0.2.1, 192.0.2.2]", "192.0.2.2]", []string{"itr.map-resolvers: [192.0.2.1, 192.0.2.2] -> [192.0.2.2]"}},
		{"a new EID-Prefix", "  local-eids:\n", "  local-eids:\n    - {eid: 10.2.0.0/16}\n",
			[]string{"etr.local-eids[10.2.0.0/16]: added {instance-id: 0, eid: 10.2.0.0/16, record-ttl: 1440, map-version: 0}"}},
		{"an EID-Prefix of another Instance-ID", "instance-id: 7", "instance-id: 8", []string{
			"etr.local-eids[[7]10.1.0.0/16]: removed {instance-id: 7, eid: 10.1.0.0/16, rlocs: [{interface: wan0, address-family: both, priority: 1, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}], record-ttl: 1440, map-version: 0}",
			"etr.local-eids[[8]10.1.0.0/16]: added {instance-id: 8, eid: 10.1.0.0/16, rlocs: [{interface: wan0, address-family: both, priority: 1, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}], record-ttl: 1440, map-version: 0}",
		}},
		{"a TTL", "/16, rlocs: uplinks}", "/16, rlocs: uplinks, record-ttl: 60}", []string{"etr.local-eids[10.1.0.0/16].record-ttl: 1440 -> 60"}},
		{"a locator of a named set", "priority: 2", "priority: 1, weight: 50", []string{
			"locator-sets.uplinks[wan1].priority: 2 -> 1", "locator-sets.uplinks[wan1].weight: 100 -> 50"}},
		{"a named set", "  uplinks: ", "  spare: [{interface: wan1}]\n  uplinks: ",
			[]string{"locator-sets.spare: added [{interface: wan1, address-family: both, priority: 1, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}]"}},
		{"a key", "the-first-key", "another-first-key", []string{"etr.map-servers[192.0.2.1].authentication-keys[0].auth-key-value: (secret) -> (secret)"}},
		{"a key's id", "the-first-key", "the-first-key, auth-key-id: 3", []string{
			"etr.map-servers[192.0.2.1].authentication-keys[0]: removed {auth-key-id: 0, auth-algorithm-id: hmac-sha-256-128+hkdf-sha256, auth-key-value: (secret), truncated-mac: false}",
			"etr.map-servers[192.0.2.1].authentication-keys[3]: added {auth-key-id: 3, auth-algorithm-id: hmac-sha-256-128+hkdf-sha256, auth-key-value: (secret), truncated-mac: false}",
		}},
		{"the order of Map-Servers", "192.0.2.1, auth|192.0.2.2, auth|192.0.2.X, auth", "192.0.2.X, auth|192.0.2.1, auth|192.0.2.2, auth", []string{
			"etr.map-servers[192.0.2.1].authentication-keys[0].auth-key-value: (secret) -> (secret)",
			"etr.map-servers[192.0.2.2].authentication-keys[0].auth-key-value: (secret) -> (secret)",
			"etr.map-servers: order 192.0.2.1, 192.0.2.2 -> order 192.0.2.2, 192.0.2.1",
		}},
		{"a role that comes", "etr:\n", "rtr: {relay: [{eid-prefixes: [10.0.0.0/8]}]}\netr:\n", []string{"rtr: added {relay: [{instance-id: 0, eid-prefixes: [10.0.0.0/8]}], path-identification: off}"}},
		{"a hop of a named set", "{interface: wan1, priority: 2}", "{explicit-locator-path: [192.0.2.7, {address: 192.0.2.8, lrs-bits: strict}]}", []string{
			"locator-sets.uplinks[wan1]: removed {interface: wan1, address-family: both, priority: 2, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}",
			"locator-sets.uplinks[192.0.2.7 -> 192.0.2.8]: added {explicit-locator-path: [{address: 192.0.2.7}, {address: 192.0.2.8, lrs-bits: [strict]}], priority: 1, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}"}},
		{"an inline locator-set", "rlocs: [{interface: wan0}]", "rlocs: uplinks",
			[]string{"etr.local-eids[[7]10.1.0.0/16].rlocs: [{interface: wan0, address-family: both, priority: 1, weight: 100, multicast-priority: 255, multicast-weight: 0, reachable: true}] -> uplinks"}},
		{"a new role", "itr:\n", "map-resolver: {ms-address: [192.0.2.9]}\nitr:\n", []string{"map-resolver: added {ms-address: [{address: 192.0.2.9, eid-prefixes: []}]}"}},
		{"a core interface's hook", "core: [wan0, wan1]", "core: [wan0, {interface: wan1, hook: xdp}]", []string{"interfaces.core[wan1].hook: auto -> xdp"}},
		{"a site interface's Instance-ID", "site: [lan0]", "site: [{interface: lan0, instance-id: 7}]", []string{"interfaces.site[lan0].instance-id: 0 -> 7"}},
	} {
		fresh := diffBase
		replacements := strings.Split(c.new, "|")
		for i, part := range strings.Split(c.old, "|") {
			if !strings.Contains(fresh, part) {
				t.Fatalf("%s: %q is not there", c.name, part)
			}
			if part != "" {
				fresh = strings.Replace(fresh, part, replacements[i], 1)
			}
		}
		got := texts(Diff(mustParse(t, diffBase), mustParse(t, fresh)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

// TestDiffBackwards: what one direction adds the other removes.
func TestDiffBackwards(t *testing.T) {
	old, fresh := parseFile(t, everythingFile), mustParse(t, diffBase)
	there, back := Diff(old, fresh), Diff(fresh, old)
	if len(there) == 0 || len(there) != len(back) {
		t.Fatalf("%d changes there, %d back", len(there), len(back))
	}
	for _, change := range there {
		if !slices.Contains(back, Change{Path: change.Path, Old: change.New, New: change.Old}) {
			t.Errorf("no way back from %s", change)
		}
	}
	for _, text := range texts(there) {
		if strings.Contains(text, "a-key-of-amsterdam") || strings.Contains(text, "the-first-key") {
			t.Errorf("a key is told: %s", text)
		}
	}
}

func texts(changes []Change) []string {
	var list []string
	for _, c := range changes {
		list = append(list, c.String())
	}
	return list
}

// TestDiffOfRelays: policies are told apart by their Instance-ID, paths by their hops.
func TestDiffOfRelays(t *testing.T) {
	const base = `interfaces: {site: [lan0], core: [wan0]}
locator-sets:
  by-relay: [{explicit-locator-path: [192.0.2.7, 192.0.2.8]}]
itr: {map-resolvers: [192.0.2.1]}
etr: {local-eids: [{eid: 192.168.0.0/16, rlocs: by-relay}]}
rtr: {relay: [{eid-prefixes: [10.0.0.0/8]}, {instance-id: 7, eid-prefixes: [10.0.0.0/8]}]}
pitr: {serve: [{eid-prefixes: [10.0.0.0/8]}]}
`
	for old, c := range map[string]struct{ fresh, want string }{
		"[{eid-prefixes: [10.0.0.0/8]}, {inst":       {"[{eid-prefixes: [10.0.0.0/8, 172.16.0.0/12]}, {inst", "rtr.relay[0].eid-prefixes: [10.0.0.0/8] -> [10.0.0.0/8, 172.16.0.0/12]"},
		"{instance-id: 7":                            {"{instance-id: 8", "rtr.relay[7]: removed {instance-id: 7, eid-prefixes: [10.0.0.0/8]}, rtr.relay[8]: added {instance-id: 8, eid-prefixes: [10.0.0.0/8]}"},
		"serve: [{eid-prefixes: [10.0.0.0/8]}":       {"serve: [{eid-prefixes: [10.0.0.0/8], sources: [192.0.2.0/24]}", "pitr.serve[0].sources: [] -> [192.0.2.0/24]"},
		"192.0.2.8]}]\n":                             {"{address: 192.0.2.8, lrs-bits: [strict]}]}]\n", "locator-sets.by-relay[192.0.2.7 -> 192.0.2.8].explicit-locator-path: [{address: 192.0.2.7}, {address: 192.0.2.8}] -> [{address: 192.0.2.7}, {address: 192.0.2.8, lrs-bits: [strict]}]"},
		"interfaces: {site: [lan0], core: [wan0]}\n": {"interfaces: {site: [lan0], core: [wan0]}\ndatapath: {recursion-depth: 2}\n", "datapath.recursion-depth: 1 -> 2"},
	} {
		var got []string
		for _, change := range Diff(mustParse(t, base), mustParse(t, strings.Replace(base, old, c.fresh, 1))) {
			got = append(got, change.String())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), c.want)
		}
	}
}

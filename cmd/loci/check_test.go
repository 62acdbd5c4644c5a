// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loci/config"
)

// A warning shows its line of the file, as a problem does, and never a key.
func TestCheckShowsTheLineOfAWarning(t *testing.T) {
	const file = `interfaces: {site: [eth1], core: [eth0]}
etr:
  map-servers:
    - ms-address: 192.0.2.1
      registration-interval: 10m
      authentication-keys: [{auth-key-value: password}]
  local-eids:
    - {eid: 10.1.0.0/24}
`
	path := filepath.Join(t.TempDir(), "xtr.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if ok, err := checkFile(&out, path, false); err != nil || !ok {
		t.Fatalf("ok %t, %v: %s", ok, err, &out)
	}
	for what, want := range map[string]string{
		"a value": "the site cannot be found\n          registration-interval: 10m\n                                 ^\n",
		"a key":   "\n          authentication-keys: [{auth-key-value: …\n                                                 ^\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got\n%swant in it\n%s", what, &out, want)
		}
	}
	if strings.Contains(out.String(), "password") {
		t.Errorf("the key is told:\n%s", &out)
	}
}

// TestCheckTellsWhatUserSpaceDoesNot: what keeps a configuration from the data plane in user space is an error with its place, what
// has no effect there a warning. With auto both depend on the host.
func TestCheckTellsWhatUserSpaceDoesNot(t *testing.T) {
	const configuration = `interfaces:
  site:
    - {interface: lan0, hook: tc}
    - {interface: lan1, instance-id: 7}
    - {interface: lan2, vlan: 9}
  core: [wan0]
itr: {map-resolvers: [192.0.2.1]}
etr: {map-servers: [], local-eids: [{eid: 10.1.0.0/16}, {eid: 10.2.0.0/16, instance-id: 7}]}
datapath: {engine: ENGINE}
`
	problems := []string{":4:38: instance-id: the data plane in user space has one Instance-ID", ":5:31: vlan: the data plane in user space sees no VLAN tags"}
	idle := ":3:31: hook: tc has no effect"
	for engine, want := range map[string]struct {
		ok        bool
		say, mute []string
	}{
		"user":   {false, append(problems, idle), nil},
		"auto":   {true, append(problems, "where the kernel refuses eBPF the daemon would not start"), []string{idle}},
		"kernel": {true, nil, append(problems, idle)},
	} {
		file := filepath.Join(t.TempDir(), "xtr.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(configuration, "ENGINE", engine, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		ok, err := checkFile(&out, file, false)
		if err != nil || ok != want.ok {
			t.Errorf("engine %s: ok %t, %v: %s", engine, ok, err, &out)
		}
		for _, text := range want.say {
			if !strings.Contains(out.String(), text) {
				t.Errorf("engine %s: %s\nwant in it: %s", engine, &out, text)
			}
		}
		for _, text := range want.mute {
			if strings.Contains(out.String(), text) {
				t.Errorf("engine %s: %s\nwant not in it: %s", engine, &out, text)
			}
		}
	}
}

// TestCheckWarnsOfMissingInterfaces, names the most alike one, and succeeds.
func TestCheckWarnsOfMissingInterfaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "loci.yaml")
	text := "interfaces: {site: [lan0], core: [{interface: wan0}]}\nitr: {map-resolvers: [192.0.2.1]}\netr: {local-eids: [{eid: 10.1.0.0/16}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	list := missingInterfaces(c)
	if len(list) != 2 || list[0].Line != 1 || !strings.Contains(list[0].Error(), "interface lan0 does not exist on this host: ") || !strings.Contains(list[1].Error(), "wan0") {
		t.Errorf("%v", list)
	}
	for name, want := range map[string]string{"enp3s0": "did you mean enp2s0?", "zzzzzzzz": "this host has eth0, enp2s0"} {
		if got := interfaceHint(name, []string{"eth0", "enp2s0"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if status, err := exitStatus(t, "check", file); status != 0 {
		t.Errorf("exit status %d, %v", status, err)
	}
}

// TestNamespaceHint names where else an interface may be, and nothing on a host without such network namespaces.
func TestNamespaceHint(t *testing.T) {
	directory := t.TempDir()
	for _, empty := range []string{directory, filepath.Join(directory, "none")} {
		if got := namespaceHint(empty); got != "" {
			t.Errorf("without network namespaces: %q", got)
		}
	}
	for _, name := range []string{"red", "blue"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, command := namespaceHint(directory), "ip netns exec NAME loci check"
	if !strings.Contains(got, command) || !strings.HasSuffix(got, "blue, red") {
		t.Errorf("with two: %q", got)
	}
}

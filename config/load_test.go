// SPDX-License-Identifier: Apache-2.0

package config

// Files: the configuration itself, and those that hold keys.

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loci/config/source"
)

// site writes an xTR's configuration that takes its key from a file.
func site(t *testing.T, directory, keyFile string) string {
	t.Helper()
	return write(t, filepath.Join(directory, "xtr.yaml"), 0o600, fmt.Sprintf(`interfaces: {site: [lan0], core: [wan0]}
itr: {map-resolvers: [192.0.2.1]}
etr:
  map-servers:
    - ms-address: 192.0.2.1
      authentication-keys:
        - auth-key-file: %s
  local-eids: [{eid: 10.1.0.0/16}]
`, keyFile))
}

func write(t *testing.T, path string, mode os.FileMode, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask may have cut it
		t.Fatal(err)
	}
	return path
}

func TestLoadReadsKeyFiles(t *testing.T) {
	directory := t.TempDir()
	write(t, filepath.Join(directory, "site.key"), 0o600, "the key of this site\n")
	for _, name := range []string{"site.key", filepath.Join(directory, "site.key")} {
		c, err := Load(site(t, directory, name))
		if err != nil {
			t.Fatal(err)
		}
		if key := c.ETR.MapServers[0].Keys[0].Value; string(key.Reveal()) != "the key of this site" {
			t.Errorf("%s: the key is %q", name, key.Reveal())
		}
		if len(c.Warnings) > 0 {
			t.Errorf("warnings: %v", c.Warnings)
		}
	}
}

func TestLoadRefusesKeyFiles(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"missing":   {"", "no such file or directory: want a file that holds the key alone"},
		"empty":     {"\n", "the key is empty: want at least 8 characters, 32 or more at best"},
		"two lines": {"a key\nand another\n", "has more than one line: want a file that holds the key alone"},
		"too long":  {strings.Repeat("k", maxSecretOctets+1), "the key has 1025 octets: want at most 1024"},
		"masked":    {SecretMask, "this is what Loci prints instead of a key: put the key itself here"},
	} {
		directory := t.TempDir()
		if name != "missing" {
			write(t, filepath.Join(directory, "site.key"), 0o600, c.content)
		}
		file := site(t, directory, "site.key")
		_, err := Load(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+":7:26: auth-key-file: ") || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	directory := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(directory, "none.yaml"): "no such file or directory",
		directory:                             "is not a regular file",
		"/dev/zero":                           "is not a regular file",
		write(t, filepath.Join(directory, "long.yaml"), 0o600, strings.Repeat("#\n", maxFileOctets)): "has more than 33554432 octets",
	} {
		if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestLoadWarnsOfFilesThatOthersRead(t *testing.T) {
	directory := t.TempDir()
	write(t, filepath.Join(directory, "site.key"), 0o644, "the key of this site")
	file := site(t, directory, "site.key")
	want := file + ":7:26: others can read the key file " + directory + "/site.key (mode 0644): chmod 600 " + directory + "/site.key"
	if c, err := Load(file); err != nil || len(c.Warnings) != 1 || c.Warnings[0].Error() != want {
		t.Errorf("got %v, %v, want %s", c, err, want)
	}
	literal := write(t, filepath.Join(directory, "ms.yaml"), 0o640, "map-server:\n  sites: [{name: a, authentication-keys: [{auth-key-value: long-enough}], eid-prefixes: [{eid: 10.1.0.0/16}]}]\n")
	want = literal + ":1:1: others can read this file (mode 0640) and it holds keys: chmod 600, or put the keys into files of their own (auth-key-file)"
	if c, err := Load(literal); err != nil || len(c.Warnings) != 1 || c.Warnings[0].Error() != want {
		t.Errorf("got %v, %v, want %s", c, err, want)
	}
}

// TestLoadWarnsOfKeysInFiles: a file is no place for the quotes of YAML, nor for a known key.
func TestLoadWarnsOfKeysInFiles(t *testing.T) {
	for content, want := range map[string]string{
		"\"the key of this site\"\n":        "the key itself begins and ends with quotes: remove them unless the other side has them, too: the keys must be equal",
		"the key of this site \n":           "the key begins or ends with a space: remove it unless the other side has it, too: the keys must be equal",
		"replace-by-32-random-characters\n": "this key stands in Loci's examples: everybody knows it: make your own: openssl rand -hex 32",
	} {
		directory := t.TempDir()
		write(t, filepath.Join(directory, "site.key"), 0o600, content)
		file := site(t, directory, "site.key")
		if c, err := Load(file); err != nil || len(c.Warnings) != 1 || c.Warnings[0].Error() != file+":7:26: "+want {
			t.Errorf("%q: got %v, %v, want %s", content, c, err, want)
		}
	}
}

// TestReloadSeesAChangedKeyFile: the configuration is the same text, the key is not.
func TestReloadSeesAChangedKeyFile(t *testing.T) {
	directory := t.TempDir()
	key := filepath.Join(directory, "site.key")
	write(t, key, 0o600, "the old key")
	file := site(t, directory, "site.key")
	old, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, key, 0o600, "the new key")
	fresh, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	changes := Diff(old, fresh)
	if want := "etr.map-servers[192.0.2.1].authentication-keys[0].auth-key-value: (secret) -> (secret)"; len(changes) != 1 || changes[0].String() != want {
		t.Errorf("got %v, want %s", changes, want)
	}
}

// Lists of EID-Prefixes have the same two forms in all roles, which mean the same.
func TestEIDPrefixesHaveOneForm(t *testing.T) {
	text := func(four, six string) string {
		return strings.NewReplacer("FOUR", four, "SIX", six).Replace(`
interfaces: {site: [lan0], core: [wan0]}
itr: {map-resolvers: [192.0.2.1]}
etr: {local-eids: [FOUR1, SIX1]}
rtr: {relay: [{instance-id: 7, eid-prefixes: [FOUR2, SIX2]}]}
pitr: {serve: [{eid-prefixes: [FOUR3, SIX3], sources: [198.51.100.0/24, "2001:db8:9::/48"]}]}
petr: {serve: [{eid-prefixes: [FOUR3, SIX3]}]}
map-server: {sites: [{name: a, authentication-keys: [{auth-key-value: 0f3b6d2a9c417e58}], eid-prefixes: [FOUR4, SIX4]}]}
map-resolver: {ms-address: [{address: 192.0.2.9, eid-prefixes: [FOUR5, SIX5]}]}
`)
	}
	expand := regexp.MustCompile(`(WORD|EID)([46])([0-9])`)
	of := func(form string) *Config {
		t.Helper()
		file := expand.ReplaceAllStringFunc(text(form+"4", form+"6"), func(word string) string {
			prefix := map[byte]string{'4': "10.%c.0.0/16", '6': "'2001:db8:%c::/48'"}[word[len(word)-2]]
			prefix = fmt.Sprintf(prefix, word[len(word)-1])
			if form == "EID" {
				return "{eid: " + prefix + "}"
			}
			return prefix
		})
		c, err := Parse("f", []byte(file))
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		return c
	}
	words, sections := of("WORD"), of("EID")
	if got, want := string(words.YAML()), string(sections.YAML()); got != want {
		t.Errorf("words:\n%s\nsections:\n%s", got, want)
	}
	if len(sections.RTR.Relay[0].EIDPrefixes) != 2 || sections.ETR.LocalEIDs[1].Prefix().String() != "2001:db8:1::/48" || words.ETR.LocalEIDs[0].TTLMinutes != 1440 {
		t.Errorf("%s", sections.YAML())
	}
	again, err := Parse("again", regexp.MustCompile("auth-key-value: .*").ReplaceAll(words.YAML(), []byte("auth-key-value: 0f3b6d2a9c417e58")))
	if err != nil || string(again.YAML()) != string(words.YAML()) {
		t.Errorf("the effective configuration is not read again: %v", err)
	}
	for item, want := range map[string]string{
		"{eid: 10.2.0.0/33}":                 "10.2.0.0/33",
		"{eid: 10.2.0.0/16, instance-id: 7}": `unknown key "instance-id"`,
		"{prefix: 10.2.0.0/16}":              `did you mean "eid"?`,
		"{}":                                 `"eid" is missing`,
		"[10.2.0.0/16]":                      "a list stands here",
	} {
		_, err := Parse("f", []byte("interfaces: {core: [wan0]}\nitr: {map-resolvers: [192.0.2.1]}\nrtr: {relay: [{eid-prefixes: [10.3.0.0/16, "+item+"]}]}\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f:3:") {
			t.Errorf("%s: %v, want %q", item, err, want)
		}
	}
}

// A process with the data plane alone asks no Map-Resolver; one with the control plane does.
func TestMapResolversAreForTheControlPlane(t *testing.T) {
	const text = "interfaces: {site: [lan0], core: [wan0]}\nitr: {ITR}\netr: {local-eids: [10.1.0.0/16]}\ndatapath: {DATAPATH}\n"
	for _, c := range []struct {
		itr, datapath  string
		refused, needs bool
	}{
		{"", "", true, false},
		{"", "mapping-socket: {path: /run/loci/map.sock}", false, true},
		{"", "lispers: {directory: /run/lispers.net}", false, true},
		{"map-resolvers: [192.0.2.1]", "mapping-socket: {path: /run/loci/map.sock}", false, false},
	} {
		made, err := Parse("f", []byte(strings.NewReplacer("ITR", c.itr, "DATAPATH", c.datapath).Replace(text)))
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		warned := slices.ContainsFunc(made.Warnings, func(w source.Problem) bool { return strings.Contains(w.Message, "no Map-Resolver to ask") })
		if err := made.NeedsResolver(); (err != nil) != c.needs || warned != c.needs || err != nil && !strings.Contains(err.Error(), "f:2:") {
			t.Errorf("%+v: %v, warnings %v", c, err, made.Warnings)
		}
	}
}

// What ends a daemon takes of a wrong file what it can.
func TestLoadAnyway(t *testing.T) {
	const right = "control:\n  socket: /run/other.sock\ndatapath:\n  pin-directory: /sys/fs/bpf/other\n  interface: loci7\n"
	defaults := LoadAnyway(filepath.Join(t.TempDir(), "none"))
	if defaults.Datapath.Interface != "loci0" || defaults.Control.Socket != "/run/loci/control.sock" || defaults.Datapath.RouteTable != 4341 {
		t.Errorf("without a file: %+v", defaults)
	}
	for name, text := range map[string]string{
		"comments":       "# nothing\n",
		"garbage":        "]]]",
		"empty":          "",
		"no values":      "datapath:\ncontrol:\n",
		"a wrong value":  "datapath: {interface: [a], pin-directory: /sys/fs/bpf/loci}\n",
		"another letter": "Datapath: {interface: loci7}\n",
	} {
		if c := LoadAnyway(write(t, filepath.Join(t.TempDir(), "loci.yaml"), 0o600, text)); c.Datapath.Interface != "loci0" || c.Control.Socket != "/run/loci/control.sock" || c.Datapath.PinDirectory != "/sys/fs/bpf/loci" {
			t.Errorf("%s: %+v", name, c.Datapath)
		}
	}
	for name, text := range map[string]string{
		"an unknown key":       right + "itr: {map-resolver: [192.0.2.1]}\n",
		"a value out of range": right + "  route-table: -1\n",
		"a tab":                "itr:\n\tmap-resolvers: [192.0.2.1]\n" + right,
		"a bracket":            right + "etr:\n  local-eids: [[[\n",
		"a bracket before":     "etr:\n  local-eids: [[[\n" + right,
		"right, but no role":   right,
	} {
		c := LoadAnyway(write(t, filepath.Join(t.TempDir(), "loci.yaml"), 0o600, text))
		if c.Datapath.Interface != "loci7" || c.Datapath.PinDirectory != "/sys/fs/bpf/other" || c.Control.Socket != "/run/other.sock" || c.Datapath.RouteTable != 4341 {
			t.Errorf("%s: %+v, %+v", name, c.Control, c.Datapath)
		}
	}
}

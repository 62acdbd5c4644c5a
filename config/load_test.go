// SPDX-License-Identifier: Apache-2.0

package config

// Files: the configuration itself, and those that hold keys.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

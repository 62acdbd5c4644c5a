// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNATWalk: the walk of nat.md, from nothing to routers behind NATs.
func TestNATWalk(t *testing.T) {
	walk{
		file: "nat.md", runtime: "nat", prepare: prepareNATWalk,
		programs: []string{"bash", "ip", "nft", "ping", "sysctl", "nsenter", "setpriv", "curl", "python3", "openssl"},
	}.run(t)
}

// prepareNATWalk lets each user into the reader's directory, which has the examples.
func prepareNATWalk(t *testing.T, directory string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(filepath.Dir(directory), 0o711))
	files, err := filepath.Glob("../examples/nat-*.yaml")
	must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(err)
		must(os.WriteFile(filepath.Join(directory, filepath.Base(file)), text, 0o600))
	}
	tun, err := os.Stat("/dev/net/tun")
	must(err)
	t.Cleanup(func() { _ = os.Chmod("/dev/net/tun", tun.Mode().Perm()) })
}

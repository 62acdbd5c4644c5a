// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketIsTakenWithCare(t *testing.T) {
	d := directory(t)
	path := filepath.Join(d, ControlPlaneSocket)
	bind := func() (*endpoint, error) { return open(d, ControlPlaneSocket, DataPlaneSocket, DefaultSocketMode) }
	refused := func(why string) {
		t.Helper()
		if e, err := bind(); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) {
			if e != nil {
				_ = e.close()
			}
			t.Errorf("%v, want it refused: %s", err, why)
		}
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("not a socket")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// One that is alive keeps its socket; what a dead one left behind is replaced.
	first := controlPlanePeer(t, d)
	refused("another process")
	first.die()
	e, err := bind()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != DefaultSocketMode {
		t.Errorf("%v, %v: want mode %o", info, err, DefaultSocketMode)
	}
	// Another's socket is not removed.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := controlPlanePeer(t, d)
	if err := e.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the socket of another is gone: %v", err)
	}
	second.die()
	if e, err = bind(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the own socket is left behind: %v", err)
	}
	if _, err := open(filepath.Join(d, strings.Repeat("a", maxPath)), ControlPlaneSocket, DataPlaneSocket, 0o600); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("%v", err)
	}
	if _, err := open(filepath.Join(d, "missing"), ControlPlaneSocket, DataPlaneSocket, 0o600); err == nil {
		t.Error("bound in a directory that is not there")
	}
}

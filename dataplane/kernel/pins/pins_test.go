// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPinMount(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	file := filepath.Join(full, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ directory, target, problem string }{
		{empty, empty, ""},
		{empty + "/", empty, ""},
		{filepath.Join(empty, "a", "b"), filepath.Join(empty, "a", "b"), ""},
		{filepath.Join(full, "a"), filepath.Join(full, "a"), ""},
		{full, "", full + " holds files"},
		{file, "", file + " is not a directory"},
		{filepath.Join(file, "a"), "", file + " is not a directory"},
	} {
		target, err := Mount(c.directory)
		if target != c.target || (err == nil) != (c.problem == "") || err != nil && !strings.HasPrefix(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v, want %q, %q", c.directory, target, err, c.target, c.problem)
		}
	}
	if target, err := Mount(DefaultDirectory); err != nil || target != "" && target != UsualFileSystem {
		t.Errorf("%s: %q, %v", DefaultDirectory, target, err)
	}
}

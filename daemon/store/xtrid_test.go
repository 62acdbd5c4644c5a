// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
)

// TestXTRID: one outlives restarts, two files have different ones, and a file with anything else gets another one.
func TestXTRID(t *testing.T) {
	random := func(b []byte) { rand.Read(b) }
	path := filepath.Join(t.TempDir(), "id")
	first, err := XTRID(path, random)
	if err != nil || first == [16]byte{} {
		t.Fatalf("%x, %v", first, err)
	}
	if again, err := XTRID(path, random); err != nil || again != first {
		t.Errorf("%x after %x, %v", again, first, err)
	}
	if other, err := XTRID(path+"2", random); err != nil || other == first {
		t.Errorf("two files have %x, %v", other, err)
	}
	for _, text := range []string{"", "12", "00000000000000000000000000000000\n", "0123456789abcdef0123456789abcdeg\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := XTRID(path, random)
		if again, _ := XTRID(path, random); err != nil || id != again || id == [16]byte{} {
			t.Errorf("%q: %x, then %x, %v", text, id, again, err)
		}
	}
	if id, err := XTRID(filepath.Join(path, "in a file"), random); err == nil || id == [16]byte{} {
		t.Errorf("a file that cannot be written: %x, %v", id, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package table

import (
	"strings"
	"testing"
)

// column is where a word begins in a line, in columns of a terminal.
func column(line, word string) int {
	before, _, found := strings.Cut(line, word)
	if !found {
		return -1
	}
	return Width(before)
}

// TestColumnsAlign with wide and combining characters, long cells, rows with fewer cells, and in parts.
func TestColumnsAlign(t *testing.T) {
	var out strings.Builder
	w := New(&out)
	w.Rows("EID-PREFIX\tLOCATOR\tSITE\tAGE", "10.1.0.0/16\t192.0.2.1 1/100\t東京サイト\tAGE1",
		"\t2001:db8:ffff:ffff:ffff:ffff:ffff:ffff(PS) -> 192.0.2.9:4343(L) 2/100", "[16777215]2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128\tx\tZu\u0308rich\tAGE2",
		"a\tb\tnew\nline\x1b[31m\tAGE3", "a\tb\t👩‍👩‍👧 family\tAGE4", "\t\t\tAGE5")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	w.Rows("later\tx\ty\tAGE6")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 8 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, line := range lines {
		if at, want := column(line, "AGE"), column(lines[0], "AGE"); at != want && i != 2 {
			t.Errorf("line %d: AGE at %d, want %d:\n%s", i, at, want, out.String())
		}
		if strings.HasSuffix(line, " ") || strings.ContainsAny(line, "\x1b\t") {
			t.Errorf("%q", line)
		}
	}
	if column(lines[2], "2001") != column(lines[0], "LOCATOR") {
		t.Errorf("the second locator is not below the first:\n%s", out.String())
	}
}

func TestPad(t *testing.T) {
	if Pad("東", 4)+"|"+PadLeft("7", 3)+"|"+Pad("long", 2) != "東  |  7|long" {
		t.Errorf("got %q, %q, %q", Pad("東", 4), PadLeft("7", 3), Pad("long", 2))
	}
}

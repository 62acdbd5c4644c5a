// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"loci/internal/attributes"
	"loci/internal/testnet"
	"loci/lisp"
)

// TestMessagesCarryAttributes: the metrics and T_HOPS have everything of a locator that a data plane works with.
func TestMessagesCarryAttributes(t *testing.T) {
	without := map[string]string{"Address": "a Map-Server's only: no data plane can send a packet to it"}
	attributes.Check(t, without, func(l lisp.Locator) (lisp.Locator, bool) {
		sent := Message{Type: TypeAdd, Locators: []Locator{{Locator: l}}}
		sent.SetPrefix(lisp.MustParsePrefix("10.2.0.0/16"))
		b, err := sent.Append(nil)
		if err != nil {
			return lisp.Locator{}, false // it has no RLOC
		}
		var received Message
		if _, err := received.Parse(b); err != nil {
			t.Fatal(err)
		}
		return received.Locators[0].Locator, true
	})
}

// metrics are the attributes that are numbers, with the offset where each changes the octets behind a locator's
// address. Next is not among them: it stands in T_HOPS.
func metrics(t *testing.T) (list []attributes.Attribute, offsets []int) {
	t.Helper()
	for _, a := range attributes.List(t) {
		if a.Octets() == 0 || a.Name == attributes.Port || a.Name == "Next" {
			continue
		}
		least := appendLocator(nil, &Locator{Locator: a.Locators[0]})
		most := appendLocator(nil, &Locator{Locator: a.Locators[1]})
		at := sockaddrIPv4Size
		for least[at] == most[at] {
			at++
		}
		list, offsets = append(list, a), append(offsets, at-sockaddrIPv4Size)
	}
	return list, offsets
}

// TestDocumentHasAttributes: docs/mapsock.md has each number of a locator where it stands, with its size.
func TestDocumentHasAttributes(t *testing.T) {
	list, offsets := metrics(t)
	for i := range list {
		want := []string{fmt.Sprint(offsets[i]), fmt.Sprint(list[i].Octets()), list[i].Word()}
		stands := func(cells []string) bool { return slices.Equal(cells[:3], want) }
		if !slices.ContainsFunc(rows(t)["Metrics"], stands) {
			t.Errorf("the document has no row %q among the metrics", want)
		}
	}
}

// TestHeaderHasAttributes: C's structure has each number of a locator where it stands, with its size.
func TestHeaderHasAttributes(t *testing.T) {
	testnet.RequireProgram(t, "gcc")
	list, offsets := metrics(t)
	var source strings.Builder
	source.WriteString("#include \"mapsock.h\"\nstatic const struct mapsock_metrics m;\n")
	for i, a := range list {
		word := a.Word()
		fmt.Fprintf(&source, "MAPSOCK_ASSERT(offset_of_%s, ", word)
		fmt.Fprintf(&source, "offsetof(struct mapsock_metrics, %s) == %d);\n", word, offsets[i])
		fmt.Fprintf(&source, "MAPSOCK_ASSERT(size_of_%[1]s, sizeof(m.%[1]s) == %[2]d);\n", word, a.Octets())
	}
	source.WriteString("int main(void) { return (int)m.priority; }\n")
	file := t.TempDir() + "/attributes.c"
	if err := os.WriteFile(file, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, "-fsyntax-only", "-I", "c", file)
}

// TestPythonHasAttributes: Python's Locator has each number, reads and writes it, and has lisp.NewLocator's defaults.
func TestPythonHasAttributes(t *testing.T) {
	testnet.RequireProgram(t, "python3")
	list, _ := metrics(t)
	plain := lisp.NewLocator(lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1")))
	sent := Message{Type: TypeAdd, Locators: []Locator{{Locator: plain}}}
	var words []string
	for _, a := range list {
		words = append(words, a.Word())
		sent.Locators = append(sent.Locators, Locator{Locator: a.Locators[0]}, Locator{Locator: a.Locators[1]})
	}
	octets := written(t, nil, &sent)
	command := exec.Command("python3", "-B", "-c", `
import json, sys, mapsock
message = list(mapsock.split(sys.stdin.buffer.read()))[0]
print(json.dumps({
    "values": [[getattr(message.locators[1 + 2 * i + most], word) for most in (0, 1)]
               for i, word in enumerate(sys.argv[1:])],
    "same": mapsock.Locator("192.0.2.1") == message.locators[0],
    "octets": message.encode().hex(),
}))`)
	command.Args = append(command.Args, words...)
	command.Dir, command.Stdin = "python", bytes.NewReader(octets)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var read struct {
		Values [][2]int
		Same   bool
		Octets string
	}
	if err := json.Unmarshal(output, &read); err != nil {
		t.Fatal(err)
	}
	for i, a := range list {
		if want := [2]int{a.Least, a.Most}; read.Values[i] != want {
			t.Errorf("Python reads %s as %v, want %v", a.Word(), read.Values[i], want)
		}
	}
	if !read.Same || read.Octets != fmt.Sprintf("%x", octets) {
		t.Errorf("Python's defaults are those of lisp.NewLocator: %v; it writes %s, want %x",
			read.Same, read.Octets, octets)
	}
}

// TestEveryAttributeIsWritten: what is read has a place in the order of what is written.
func TestEveryAttributeIsWritten(t *testing.T) {
	for a := range attributeForms {
		place := slices.Index(inOrder[:], Attribute(a))
		known := formOf(Attribute(a)) != nil
		if known != (place >= 0) || known && attributeForms[a].append == nil {
			t.Errorf("attribute %d is known: %v; its place is %d", a, known, place)
		}
	}
	sorted := slices.Sorted(slices.Values(inOrder[:]))
	if len(slices.Compact(sorted)) != len(inOrder) {
		t.Errorf("an attribute stands twice in %v", inOrder)
	}
}

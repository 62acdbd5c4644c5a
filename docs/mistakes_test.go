// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:generate go test -run TestMistakesAreDocumented -update .

const (
	mistakesDocument = "mistakes.md"
	// knownMistakes has every wrong configuration with its message, which package config holds the code to.
	knownMistakes = "../config/testdata/mistakes.txt"
	tableBegins   = "<!-- begin: mistakes -->\n"
	tableEnds     = "<!-- end: mistakes -->\n"
)

// The mistakes that are made first, or that cost most: what is written, and the case of knownMistakes that has it.
var documentedMistakes = []struct{ written, name string }{
	{"auth-key-value: replace-by-32-random-characters", "warning: the key of the examples"},
	{"auth-key-value: ChangeMe", "warning: a word that everybody tries first as a key"},
	{"registration-interval: 10m", "warning: registered more rarely than a registration lasts"},
	{"registration-interval: 5m", "warning: registered more rarely than the file's own Map-Server keeps it"},
	{"merge-request: true", "warning: merged without an xTR-ID"},
	{"eid: 10.1.5.0/24", "a static mapping inside an own EID-Prefix"},
	{"core: [lo]", "the loopback interface as core"},
	{"miss-policy: “drop”", "typographic quotes"},
	{"ms-address: [127.0.0.1", "a Map-Resolver that asks itself"},
	{`"2001:db8::1:4342"`, "warning: a port glued to an IPv6 address"},
	{"weight: 0", "warning: all weights are 0"},
	{"eid: 10.1.0.0/33", "mask lengths out of range"},
	{`"192.0.2.1:0"`, "ports out of range"},
	{"\tmap-resolvers", "a tab"},
	{"auth-algorithm-id: md5", "an unknown algorithm"},
	{"pin-directory: /sys/fs/bpf/loci.1", "a pin-directory whose name a BPF file system refuses"},
	{"nonce-file: /sys/fs/bpf/loci/nonce", "files in the pin-directory"},
}

// messageOf takes the place from a message, and what follows its first line.
var messageOf = regexp.MustCompile(`(?m)^(?:warning: )?f:\d+:\d+: (.*)$`)

// The table repeats the cases, so that a message cannot change without it.
func TestMistakesAreDocumented(t *testing.T) {
	document := read(t, mistakesDocument)
	before, rest, begins := strings.Cut(document, tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no marks for its table", mistakesDocument)
	}
	wanted := before + tableBegins + mistakesTable(t) + tableEnds + after
	if *update {
		if err := os.WriteFile(mistakesDocument, []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if wanted != document {
		t.Errorf("%s does not have the messages of %s: run `make generate`", mistakesDocument, knownMistakes)
	}
}

func mistakesTable(t *testing.T) string {
	cases := read(t, knownMistakes)
	table := "| Written | Loci | Message |\n|---|---|---|\n"
	for _, m := range documentedMistakes {
		_, rest, found := strings.Cut(cases, "\n=== "+m.name+"\n")
		one, _, _ := strings.Cut(rest, "\n=== ")
		yaml, told, hasMessage := strings.Cut(one, "\n>>>\n")
		if !found || !hasMessage || !strings.Contains(yaml, m.written) {
			t.Fatalf("%s has no case %q in which %q is written", knownMistakes, m.name, m.written)
		}
		does := "refuses"
		if strings.HasPrefix(told, "accepted") {
			does = "warns"
		}
		message := messageOf.FindStringSubmatch(told)
		if message == nil {
			t.Fatalf("%s: no message in %q", m.name, told)
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", strings.ReplaceAll(m.written, "\t", "⇥"), does, strings.ReplaceAll(message[1], "|", `\|`))
	}
	return table
}

// What depends on the host: the words of each message, and the file that has them.
func TestMistakesOfTheHostAreDocumented(t *testing.T) {
	document := strings.Join(strings.Fields(read(t, mistakesDocument)), " ")
	for words, file := range map[string]string{
		"is on a BPF file system of this mount namespace alone":                                   "../daemon/kernelplane/pins.go",
		"is not on a BPF file system, so that the daemon mounts one there":                        "../daemon/kernelplane/pins.go",
		"holds files, and is not on a BPF file system: one that is mounted there would hide them": "../dataplane/kernel/pins/pins.go",
		"is this daemon itself, ":                "../config/servers.go",
		"which would ask itself again and again": "../config/servers.go",
	} {
		if !strings.Contains(document, words) || !strings.Contains(read(t, file), words) {
			t.Errorf("%q does not stand in both %s and %s", words, mistakesDocument, file)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package mapcmd

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the transcripts of testdata anew")

var ownPID = regexp.MustCompile(`"pid": ?[0-9]+`)

// otherCounts hold how many clients there have been, which no test can foretell.
var otherCounts = regexp.MustCompile(`"other": \{[^}]*\}`)

// Every file of testdata is a session: commands, each with what it prints. A command is
// "map ...", "mapstat ...", or "send SOURCE DESTINATION", by which a packet comes from
// the site.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			if isBigEndian := binary.NativeEndian.Uint16([]byte{0, 1}) == 1; isBigEndian && strings.Contains(name, "rehearsal") {
				t.Skip("the octets are those of a little-endian host")
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, serve(t), string(want))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
		})
	}
}

// The guide shows what really is printed.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/mapping-commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## A mapping by hand\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, found := strings.Cut(block, "```\n")
	if !found {
		t.Fatal("the guide shows no session")
	}
	want := strings.ReplaceAll(block, "# map", "$ map")
	if got := replay(t, serve(t), want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// replay runs the commands of a transcript and returns what it should be.
func replay(t *testing.T, s *served, transcript string) string {
	var out strings.Builder
	for line := range strings.Lines(transcript) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		if isComment := strings.HasPrefix(line, "# "); isComment {
			out.WriteString(line + "\n")
		}
		if !isCommand {
			continue
		}
		out.WriteString(line + "\n" + s.run(t, strings.Fields(command)))
	}
	return out.String()
}

func (s *served) run(t *testing.T, words []string) string {
	var out bytes.Buffer
	terminal := Terminal{Out: &out, Err: &out, Now: func() time.Time { return at }}
	var err error
	switch words[0] {
	case "send":
		s.send(words[1], words[2])
	case "map":
		err = Map(t.Context(), append([]string{"--socket", s.path}, words[1:]...), terminal)
	case "mapstat":
		err = Mapstat(t.Context(), append([]string{"--socket=" + s.path}, words[1:]...), terminal)
	default:
		t.Fatalf("transcript: what is %q?", words[0])
	}
	if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	text := strings.ReplaceAll(out.String(), s.path, "SOCKET")
	text = otherCounts.ReplaceAllString(text, `"other": {}`)
	return ownPID.ReplaceAllString(text, `"pid": 1`)
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lab"
	"loci/lab/te"
	"loci/lisp"
)

// teFiles writes what two sites, a and b, and two RTRs, r and s, tell, into the working directory.
func teFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, rtts := range map[string]map[string]time.Duration{
		"a.json": {"198.51.100.1": 10, "198.51.100.2": 11, "203.0.113.2": 30}, "b.json": {},
		"r.json": {"203.0.113.2": 12}, "s.json": {"203.0.113.2": 12},
	} {
		locators := []api.LocatorState{}
		for rloc, rtt := range rtts {
			at, seconds := time.Now(), jsondoc.SecondsOf(rtt*time.Millisecond)
			locators = append(locators, api.LocatorState{
				RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(rloc)), State: "up", RoundTrip: &seconds,
				Probes: &api.Probes{Sent: 1, LastReplyAt: &at},
			})
		}
		var text bytes.Buffer
		if err := jsondoc.Write(&text, locators); err != nil {
			t.Fatal(err)
		}
		writeText(t, name, text.String())
	}
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const teUsual = "te choose --node 203.0.113.1=a.json --node 203.0.113.2=b.json --node 198.51.100.1=r.json --node 198.51.100.2=s.json --from 203.0.113.1 --to 203.0.113.2"

// teChoose is what the usual command prints with further flags.
func teChoose(t *testing.T, flags string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	err := command.Execute(t.Context(), root, strings.Fields(teUsual+" "+flags))
	return out.String(), err
}

// TestTEChoose: text, JSON, drawing and configuration are of one choice; the set from before stays.
func TestTEChoose(t *testing.T) {
	teFiles(t)
	text, err := teChoose(t, "--svg te.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"chosen: 198.51.100.1 -> 203.0.113.2, 22.000ms", "chosen: 198.51.100.2 -> 203.0.113.2, 23.000ms",
		"differential RTT: 1.000ms",
		"reason: 3 of 3 candidates are within 1.5 times the shortest RTT", "locator-sets:\n  te:\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	drawing, err := os.ReadFile("te.svg")
	if err != nil || !bytes.HasPrefix(drawing, []byte("<svg ")) ||
		!bytes.Contains(drawing, []byte("198.51.100.2 -> 203.0.113.2, 23.000 ms")) {
		t.Errorf("%v\n%s", err, drawing)
	}
	document, err := teChoose(t, "--json --paths 1 --avoid 198.51.100.1")
	var d te.Document
	if err != nil || json.Unmarshal([]byte(document), &d) != nil || len(d.Chosen.Paths) != 1 ||
		d.Chosen.Paths[0].Hops[0] != netip.MustParseAddr("198.51.100.2") {
		t.Errorf("%v\n%s", err, document)
	}
	set, err := teChoose(t, "--yaml --avoid 198.51.100.1 --name mine --strict")
	if err != nil || !strings.Contains(set, "  mine:\n") || !strings.Contains(set,
		"- {address: 198.51.100.2, lrs-bits: [strict]}") || !strings.Contains(set, "- address: 203.0.113.2") {
		t.Errorf("%v\n%s", err, set)
	}
	writeText(t, "mine.yaml", set)
	for flags, want := range map[string]string{
		"--gain 90%": "stays: its differential RTT is 7.000 ms, that of the best set is 1.000 ms, which is not less by 90 %", "": "is left: its differential RTT is 7.000 ms",
	} {
		if text, err := teChoose(t, "--name mine --keep mine.yaml "+flags); err != nil ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %v, no %q in\n%s", flags, err, want, text)
		}
	}
}

// TestTEChooseRefuses: each wrong argument and file, with its exit status.
func TestTEChooseRefuses(t *testing.T) {
	teFiles(t)
	writeText(t, "nonsense.json", "{")
	writeText(t, "status.json", `{"rloc": "198.51.100.9"}`)
	writeText(t, "bad.json", `[{"rloc": "nonsense"}]`)
	writeText(t, "empty.json", "")
	writeText(t, "none.yaml", "locator-sets: {other: [{address: 192.0.2.1}]}\n")
	for flags, want := range map[string]struct {
		status int
		text   string
	}{
		"--k 9":                            {2, "--k 9: want 1 to 8"},
		"--k 0":                            {2, "--k 0: want 1 to 8"},
		"--paths 9":                        {2, "--paths 9: want 1 to --k, which is 8"},
		"--ratio 0.9":                      {2, "--ratio 0.9: want 1 to 1000"},
		"--ratio NaN":                      {2, "--ratio NaN: want 1 to 1000"},
		"--max-age 0s":                     {2, "--max-age 0s: want more than 0s"},
		"--gain 5%":                        {2, "--gain is for --keep"},
		"--keep none.yaml --gain 5":        {2, "--gain 5: want 0% to 100%"},
		"--keep none.yaml --gain 101%":     {2, "--gain 101%: want 0% to 100%"},
		"--json --yaml":                    {2, "none of the others can be"},
		"--json --strict":                  {2, "--strict is for locator-sets"},
		"--name a:b":                       {2, `--name "a:b": want letters`},
		"--from 192.0.2.9":                 {2, "--from 192.0.2.9: there is no --node 192.0.2.9=FILE"},
		"--from nonsense":                  {2, "--from nonsense: want an RLOC"},
		"--to 203.0.113.1":                 {2, "are one router"},
		"--avoid 203.0.113.2":              {2, "every path begins or ends there"},
		"--avoid 192.0.2.9":                {2, "--avoid 192.0.2.9: there is no --node"},
		"--node 203.0.113.1=b.json":        {2, "--node 203.0.113.1 stands there twice"},
		"--node b.json":                    {2, "--node b.json: want RLOC=FILE"},
		"--node fe80::1%lo=b.json":         {2, "want RLOC=FILE"},
		"--node 192.0.2.9=no.json":         {1, "no.json: no such file"},
		"--node 192.0.2.9=nonsense.json":   {1, "nonsense.json: want the output of loci show locators --json"},
		"--node 192.0.2.9=status.json":     {1, "status.json: want the output of loci show locators --json"},
		"--node 192.0.2.9=bad.json":        {1, "bad.json: want the output of loci show locators --json"},
		"--node 192.0.2.9=empty.json":      {1, "empty.json: want the output of loci show locators --json"},
		"--node 2001:db8::1=b6 --from ::1": {1, "b6: no such file"},
		"--keep no.yaml":                   {1, "no.yaml: no such file"},
		"--keep none.yaml":                 {1, "none.yaml: no locator-set te"},
		"--paths 4": {1,
			"3 of 3 candidates are within 1.5 times the shortest RTT, 22.000 ms; 4 paths are wanted"},
		"--max-age 1ns": {1,
			"no path by at most 3 RTRs leads from 203.0.113.1 to 203.0.113.2"},
		"--svg /no/such/directory/te.svg": {1, "no such file"},
	} {
		_, err := teChoose(t, flags)
		if err == nil || !strings.Contains(err.Error(), want.text) ||
			command.Status("loci-lab", err, lab.ExitStatus) != want.status {
			t.Errorf("%s: %v, want status %d, %s", flags, err, want.status, want.text)
		}
	}
	if _, err := teChoose(t, "--node 2001:db8::1=./b.json --to 2001:db8::1"); err == nil ||
		!strings.Contains(err.Error(), "are of two families") {
		t.Errorf("two families: %v", err)
	}
}

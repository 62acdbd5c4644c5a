// SPDX-License-Identifier: Apache-2.0

package config

// Wrong configurations and the exact words their authors read. The cases are in
// testdata/mistakes.txt; `go test ./config -run Mistakes -update` writes the words
// anew, for a person to read before they are committed.

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"loci/config/source"
)

var update = flag.Bool("update", false, "write the golden messages anew")

const mistakesFile = "testdata/mistakes.txt"

// minMistakes guards against cases that get lost.
const minMistakes = 90

type mistake struct{ name, yaml, message string }

// readMistakes reads "=== name", the configuration, ">>>", the message.
func readMistakes(t testing.TB) (head string, cases []mistake) {
	t.Helper()
	b, err := os.ReadFile(mistakesFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(b), "\n=== ")
	for _, text := range strings.Split(rest, "\n=== ") {
		name, body, _ := strings.Cut(text, "\n")
		yaml, message, found := strings.Cut("\n"+body, "\n>>>")
		if !found {
			t.Fatalf("case %q has no >>>", name)
		}
		cases = append(cases, mistake{name, strings.TrimPrefix(yaml, "\n") + "\n", strings.TrimSpace(message)})
	}
	return head + "\n", cases
}

// Shows RFC 9300 s.4 (1), RFC 9301 s.8.1 (1).
func TestMistakes(t *testing.T) {
	head, cases := readMistakes(t)
	if len(cases) < minMistakes {
		t.Errorf("%d cases, want at least %d", len(cases), minMistakes)
	}
	seen := map[string]bool{}
	var golden bytes.Buffer
	golden.WriteString(head)
	for i, m := range cases {
		if seen[m.name] {
			t.Errorf("two cases %q", m.name)
		}
		seen[m.name] = true
		if got := told(m.yaml); got != m.message {
			t.Errorf("%s:\n got %s\nwant %s", m.name, got, m.message)
			cases[i].message = got
		}
		golden.WriteString("=== " + m.name + "\n" + m.yaml + ">>>\n" + cases[i].message + "\n")
	}
	if *update {
		if err := os.WriteFile(mistakesFile, golden.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// told is the message of a wrong configuration, or the warnings of a right one.
func told(yaml string) string {
	c, err := Parse("f", []byte(yaml))
	if err != nil {
		return err.Error()
	}
	lines := []string{"accepted"}
	for _, w := range c.Warnings {
		lines = append(lines, "warning: "+w.Error())
	}
	return strings.Join(lines, "\n")
}

// TestSecretsStaySecret: no message shows a key, wherever its author put it.
func TestSecretsStaySecret(t *testing.T) {
	const key = "correct-horse-battery"
	for _, yaml := range []string{
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-valu: " + key + "}]}]}",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys: " + key,
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-value:" + key + "}]}]}",
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{" + key + "}]}]}",
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-value:\n" + key + ": x}]}]}",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - " + key + ": x",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value:" + key,
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - " + key,
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value: [" + key + "]",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value: " + key + "\n        auth-key-id: 1",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value: \"" + key,
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value: &" + key + " x",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value:\n            " + key + "\n            and more",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value:\n            “" + key + "”",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value:\n            " + key + ": a: b",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n        - auth-key-value:\n            " + key + "\tx",
		"etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n      - " + key + "\n      - auth-key-value:\n          – " + key,
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-value: \"" + key + ", " + key + "\", auth-algorithm-id: md5}]}]}",
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-algorithm-id: md5, auth-key-value: \"a " + key + "\", auth-key-id: " + "900}]}]}",
		"etr: {map-servers: [{ms-address: 192.0.2.1, authentication-keys: [{auth-key-value: interface " + key + ": x}]}]}",
	} {
		_, err := Parse("f", []byte(yaml))
		var problems *source.Problems
		if !errors.As(err, &problems) {
			t.Errorf("accepted: %s", yaml)
			continue
		}
		if strings.Contains(problems.Detail(), key) {
			t.Errorf("the key is told: %s", problems.Detail())
		}
	}
}

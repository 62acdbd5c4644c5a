// SPDX-License-Identifier: Apache-2.0

package config

// The line that is shown with a problem: always one, also where a secret is near.

import (
	"errors"
	"strings"
	"testing"

	"loci/config/source"
)

func TestProblemsShowTheirLine(t *testing.T) {
	const etr = "etr:\n  map-servers:\n    - ms-address: 192.0.2.1\n      authentication-keys:\n"
	for name, c := range map[string]struct{ yaml, line, mark string }{
		"a tab":                            {"itr:\n\tmap-resolvers: [192.0.2.1]", "→map-resolvers: [192.0.2.1]", "^"},
		"a tab behind a value":             {"itr:\n  miss-policy: drop\t", "  miss-policy: drop→", "                   ^"},
		"a control character":              {"itr:\n  miss-policy: \adrop", "  miss-policy: \uFFFDdrop", "               ^"},
		"a space that is none":             {"itr:\n  miss-policy:\u00a0drop", "  miss-policy:\uFFFDdrop", "              ^"},
		"an unknown algorithm":             {etr + "        - {auth-key-value: horse-battery, auth-algorithm-id: md5}", "        - {auth-key-value: … auth-algorithm-id: md5}", "                                                ^"},
		"an unknown algorithm in quotes":   {etr + "        - {auth-algorithm-id: \"md5\", auth-key-value: \"horse, battery\"}", "        - {auth-algorithm-id: \"md5\", auth-key-value: …", "                              ^"},
		"an unknown algorithm alone":       {etr + "        - auth-algorithm-id: md5", "        - auth-algorithm-id: md5", "                             ^"},
		"a key ID out of range":            {etr + "        - auth-key-value: horse-battery\n          auth-key-id: 256", "          auth-key-id: 256", "                       ^"},
		"an unknown key of a key":          {etr + "        - {auth-key-valu: horse-battery, auth-key-id: 1}", "        - {auth-key-valu: …, auth-key-id: …}", "           ^"},
		"an empty secret":                  {etr + "        - auth-key-value: \"\"", "        - auth-key-value: …", "                          ^"},
		"a secret that is a printed one":   {etr + "        - auth-key-value: (secret) # of the site", "        - auth-key-value: …", "                          ^"},
		"two secrets in a line":            {etr + "        - {auth-key-value: horse, auth-algorithm-id: md5, auth-key-file: battery}\n        - {auth-key-value: battery, auth-key-value: horse}", "        - {auth-key-value: …", "                           ^"},
		"no list of keys":                  {"etr:\n  map-servers: [{ms-address: 192.0.2.1, authentication-keys: horse-battery}]", "  map-servers: [{ms-address: …, authentication-keys: …}]", "                                                     ^"},
		"a Map-Server's address beside it": {"etr:\n  map-servers: [{ms-address: ms.example, authentication-keys: [{auth-key-value: horse-battery}]}]", "  map-servers: [{ms-address: ms.example, authentication-keys: [{auth-key-value: …", "                             ^"},
	} {
		_, err := Parse("f", []byte(c.yaml))
		var problems *source.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: accepted", name)
			continue
		}
		lines := strings.Split(problems.List[0].Detail(), "\n")
		if len(lines) != 3 || lines[1] != "    "+c.line || lines[2] != "    "+c.mark {
			t.Errorf("%s: got\n%s\nwant\n    %s\n    %s", name, problems.List[0].Detail(), c.line, c.mark)
		}
		if strings.Contains(problems.Detail(), "horse") || strings.Contains(problems.Detail(), "battery") {
			t.Errorf("%s: the secret is told: %s", name, problems.Detail())
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"

	"loci/config"
)

const (
	readmeFile = "../README.md"
	// maxMinimalLines is what a minimal xTR may take: it is why the README can show one whole.
	maxMinimalLines = 14
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The configuration in the README is right, complete, and short.
func TestReadmeConfiguration(t *testing.T) {
	match := yamlBlock.FindStringSubmatch(read(t, readmeFile))
	if match == nil {
		t.Fatalf("%s shows no configuration", readmeFile)
	}
	if lines := strings.Count(match[1], "\n"); lines > maxMinimalLines {
		t.Errorf("%s: the minimal configuration has %d lines, more than %d", readmeFile, lines, maxMinimalLines)
	}
	c, err := config.Parse(readmeFile, []byte(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	if c.ITR == nil || c.ETR == nil {
		t.Errorf("%s: the configuration is no xTR's", readmeFile)
	}
	for _, warning := range c.Warnings {
		if !strings.Contains(warning.Message, "stands in Loci's examples") { // the key is to be replaced
			t.Errorf("%s: %v", readmeFile, warning)
		}
	}
}

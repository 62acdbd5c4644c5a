// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"math"
	"regexp"
	"strconv"
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

// inverse is what the README says of the figures of some rows of benchmarks.md: the other's rate as a part of Loci's.
func inverse(t *testing.T, row *regexp.Regexp) string {
	t.Helper()
	low, high := math.Inf(1), 0.0
	for _, line := range row.FindAllString(read(t, "benchmarks.md"), -1) {
		cells := strings.Split(line, "|")
		for _, figure := range strings.Split(cells[len(cells)-3], "…") {
			value, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			low, high = min(low, 1/value), max(high, 1/value)
		}
	}
	shown := func(v float64) string {
		if v >= 1 {
			return strconv.FormatFloat(v, 'g', 2, 64)
		}
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return shown(low) + " to " + shown(high)
}

// The README's ratios are those of benchmarks.md, and each source that a row names is there.
func TestReadmeRatios(t *testing.T) {
	readme := read(t, readmeFile)
	for _, c := range []struct {
		row   string // of the README
		field int
		rows  string // of benchmarks.md
	}{
		{"kernel VXLAN", 1, `loci tc / kernel VXLAN \| 8 \| +\|`},
		{"kernel VXLAN", 2, `loci XDP / kernel VXLAN \| 8 \| ≥`},
		{"plain routing, no tunnel", 1, `loci tc / plain routing \| 8 \| ≥`},
		{"plain routing, no tunnel", 2, `loci XDP / plain routing \| 8 \| ≥`},
		{"plain routing, no tunnel", 3, `loci user / plain routing \|`},
		{"wireguard-go, encrypting", 3, `loci user / wireguard-go \|`},
		{"OpenOverlayRouter", 3, `loci user / OpenOverlayRouter \|`},
		{"OpenVPN without cipher", 3, `loci user / OpenVPN without cipher \|`},
	} {
		line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(c.row) + ` \|.*\|.*\|.*\|$`).FindString(readme)
		want := inverse(t, regexp.MustCompile(`(?m)^\| rate of `+c.rows+`.*$`))
		if cells := strings.Split(line, "|"); len(cells) < 5 || strings.TrimSpace(cells[1+c.field]) != want {
			t.Errorf("%s: of %s, the figures of benchmarks.md are %s: %s", readmeFile, c.row, want, line)
		}
	}
	_, sources, _ := strings.Cut(readme, "\nSources:\n")
	for _, mark := range regexp.MustCompile(`(?m)^\| .*(\[\d+\]) \|`).FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(sources, mark[1]+" ") {
			t.Errorf("%s: there is no source %s", readmeFile, mark[1])
		}
	}
}

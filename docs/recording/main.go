// SPDX-License-Identifier: Apache-2.0

// Command recording draws what a terminal shows as an SVG whose lines appear one after the other: README.md has one of
// the demo, which `make recording` makes. It reads the output from standard input and knows the colours that the demo uses.
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	characterX = 8.4 // pixels of a character
	lineY      = 18  // of a line
	margin     = 16
	lineEvery  = 0.12 // seconds from one line to the next
)

// classes are the colours of the demo, by their numbers in ECMA-48's SGR.
var classes = map[string]string{"1;36": "title", "2": "dim", "32": "good", "31": "bad"}

var colour = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func draw(from io.Reader, to io.Writer) error {
	var lines []string
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		lines = append(lines, strings.TrimRight(scanner.Text(), "\r"))
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	width, height := float64(longest(lines))*characterX+2*margin, float64(len(lines)*lineY+2*margin)
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">
<style>
text { fill: #d8dee9; white-space: pre; animation: appear 0.1s both; }
.title { fill: #88c0d0; font-weight: bold; } .dim { fill: #7b88a1; } .good { fill: #a3be8c; } .bad { fill: #bf616a; }
@keyframes appear { from { opacity: 0; } to { opacity: 1; } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#2e3440"/>
`, width, height)
	for i, line := range lines {
		if text := spans(line); text != "" {
			fmt.Fprintf(w, `<text xml:space="preserve" x="%d" y="%d" style="animation-delay: %.2fs">%s</text>`+"\n", margin, margin+lineY*(i+1)-5, float64(i)*lineEvery, text)
		}
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// longest is the number of characters in the longest line, without its colours.
func longest(lines []string) int {
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(colour.ReplaceAllString(line, "")))
	}
	return columns
}

// spans turns a line with colours into SVG's elements.
func spans(line string) string {
	var b strings.Builder
	class := ""
	for line != "" {
		text, next, rest := line, "", ""
		if at := colour.FindStringSubmatchIndex(line); at != nil {
			text, next, rest = line[:at[0]], classes[line[at[2]:at[3]]], line[at[1]:]
		}
		switch {
		case text == "":
		case class == "":
			b.WriteString(html.EscapeString(text))
		default:
			fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
		}
		class, line = next, rest
	}
	return b.String()
}

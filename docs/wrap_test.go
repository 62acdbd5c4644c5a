// SPDX-License-Identifier: Apache-2.0

package docs

import "strings"

// maxColumns is what generated Markdown is wrapped at; internal/tidy holds every document against it.
const maxColumns = 98

// wrap lays a text out as an item of a list, or with an empty mark as a paragraph. What stands in backquotes stays on a line.
func wrap(mark, text string) string {
	var out strings.Builder
	indent := strings.Repeat(" ", len(mark))
	line := mark
	for _, word := range words(text) {
		switch {
		case line == mark || line == indent:
			line += word
		case len([]rune(line))+1+len([]rune(word)) <= maxColumns:
			line += " " + word
		default:
			out.WriteString(line + "\n")
			line = indent + word
		}
	}
	return out.String() + line + "\n"
}

// words splits a text at its spaces, but not within backquotes.
func words(text string) []string {
	inCode := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '`' {
			inCode = !inCode
		}
		return r == ' ' && !inCode
	})
}

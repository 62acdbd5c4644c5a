// SPDX-License-Identifier: Apache-2.0

// How wide a line of a document is: one that fits into a window is read and reviewed as it stands.

package tidy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDocumentColumns is how wide a line of a document may be.
const maxDocumentColumns = 100

// wideTables are documents whose tables may be wider: programs write them.
var wideTables = map[string]bool{"docs/benchmarks.md": true, "docs/mistakes.md": true}

// checkWidth looks at all lines but those that cannot be shorter: what a program prints or reads, between fences, and a
// line that is one word, as a link is.
func checkWidth(t *tree) []finding {
	var all []finding
	for _, f := range t.documents() {
		fenced := false
		f.eachLine(func(number int, line string) {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				fenced = !fenced
			}
			isRow := strings.HasPrefix(text, "|") && wideTables[f.path]
			isWord := !strings.Contains(strings.TrimPrefix(text, "- "), " ")
			if columns := utf8.RuneCountInString(line); columns > maxDocumentColumns && !fenced && !isRow && !isWord {
				all = append(all, finding{f.path, number, fmt.Sprintf("%d columns, the wall is %d: wrap it, or make a list of a wide table", columns, maxDocumentColumns)})
			}
		})
	}
	return all
}

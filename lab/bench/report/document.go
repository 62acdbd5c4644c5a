// SPDX-License-Identifier: Apache-2.0

// Tables for the documentation. What stands outside the two marks of the document is never touched.

package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// The marks between which figures stand.
const (
	BeginMark = "<!-- figures: written by `make bench` -->"
	EndMark   = "<!-- end of figures -->"
)

// WriteDocument puts the tables of some reports between the marks of a Markdown file.
func WriteDocument(path string, reports []*Report) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := bytes.Index(content, []byte(BeginMark)), bytes.Index(content, []byte(EndMark))
	if begin < 0 || end < begin {
		return fmt.Errorf("%s: it has no %q followed by %q", path, BeginMark, EndMark)
	}
	var b bytes.Buffer
	b.Write(content[:begin+len(BeginMark)])
	b.WriteString("\n\n" + markdown(reports))
	b.Write(content[end:])
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func markdown(reports []*Report) string {
	var b strings.Builder
	for _, r := range reports {
		fmt.Fprintf(&b, "### %s\n\n`loci bench %s`, %s: %s. It took %.0f s.\n\n", r.Name, r.Name, r.Environment.Date, r.Environment, r.Seconds)
		for _, rows := range tables(r) {
			if len(rows) > 1 {
				b.WriteString(markdownTable(rows) + "\n")
			}
		}
	}
	return b.String()
}

func markdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

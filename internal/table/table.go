// SPDX-License-Identifier: Apache-2.0

// Package table aligns columns of text for a terminal, whatever stands in them: characters that take two columns or none,
// IPv6 EID-Prefixes and paths beside IPv4, rows with fewer cells than others. It knows nothing of what it shows.
package table

import (
	"bytes"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// gap is how many blanks stand between two columns at least.
const gap = 2

// Width is how many columns of a terminal a text takes.
func Width(text string) int {
	if isPlain(text) {
		return len(text)
	}
	return uniseg.StringWidth(text)
}

// isPlain reports whether a text is of ASCII's printable characters alone, each a column wide, as nearly all of a long table are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Pad appends blanks up to a width; what is longer stays as it is.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-Width(text), 0))
}

// PadLeft puts blanks in front, for numbers.
func PadLeft(text string, width int) string {
	return strings.Repeat(" ", max(width-Width(text), 0)) + text
}

// Writer aligns rows. Those that are written later are aligned with the widest cells so far, so that a long table may be
// flushed in parts.
type Writer struct {
	to     io.Writer
	rows   [][]string
	widths []int
	text   []byte // scratch buffer
}

// New returns a Writer that writes when it is flushed.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// Rows adds rows, one a line, with a tab between two cells.
func (w *Writer) Rows(lines ...string) {
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		for i, cell := range cells {
			cells[i] = oneLine(cell)
			if i == len(w.widths) {
				w.widths = append(w.widths, 0)
			}
			w.widths[i] = max(w.widths[i], Width(cells[i]))
		}
		w.rows = append(w.rows, cells)
	}
}

// oneLine keeps a cell from breaking its row, and from moving a terminal's cursor.
func oneLine(cell string) string {
	if isPlain(cell) {
		return cell
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, cell)
}

// Flush writes the rows that were added since the last time. No line ends with blanks.
func (w *Writer) Flush() error {
	text := w.text[:0]
	for _, cells := range w.rows {
		for i, cell := range cells {
			text = append(text, cell...)
			for range w.widths[i] + gap - Width(cell) {
				text = append(text, ' ')
			}
		}
		text = append(bytes.TrimRight(text, " "), '\n')
	}
	clear(w.rows)
	w.rows, w.text = w.rows[:0], text
	_, err := w.to.Write(text)
	return err
}

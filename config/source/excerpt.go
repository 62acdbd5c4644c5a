// SPDX-License-Identifier: Apache-2.0

package source

// The line of the file that is shown with a problem. Where it may hold a secret, every
// word that is neither a key of the model nor told by the problem anyway is left out:
// the author of a mistake may have put the secret where another word belongs.

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxExcerpt bounds the line that is shown with a problem, in octets.
const maxExcerpt = 160

// leftOut stands for words that are not shown.
const leftOut = '…'

// SecretKey is the key whose value is a secret.
const SecretKey = "auth-key-value"

// excerpt is the line of a place as it may be shown, empty when it may not, and how many
// of its characters stand before the place.
func (s *File) excerpt(at Place, path, message string) (line string, caret int) {
	if at.line < 1 || at.line > len(s.lines) || at.column < 1 {
		return "", 0
	}
	line = s.lines[at.line-1]
	if len(line) > maxExcerpt || at.column > utf8.RuneCountInString(line)+1 {
		return "", 0
	}
	if s.mayHoldSecret(at.line-1, path) {
		return s.maskedLine(line, at.column-1, path, message)
	}
	return visible(line), at.column - 1
}

// visible shows characters that a terminal has no glyph for by one that it has.
func visible(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return '→'
		case !strconv.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, line)
}

// mayHoldSecret reports whether the path, the line or a line that it stands below by its
// indentation is about keys.
func (s *File) mayHoldSecret(index int, path string) bool {
	if aboutKeys(path) || aboutKeys(s.lines[index]) {
		return true
	}
	depth := indentation(s.lines[index])
	for i := index - 1; i >= 0 && depth > 0; i-- {
		if d := indentation(s.lines[i]); d < depth && strings.TrimSpace(s.lines[i]) != "" {
			if aboutKeys(s.lines[i]) {
				return true
			}
			depth = d
		}
	}
	return false
}

func aboutKeys(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "key") || strings.Contains(text, "secret") || strings.Contains(text, "password")
}

// indentation is where the text of a line begins, behind the dashes of lists.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

// maskedLine is a line without what may be secret; place is an index of characters.
func (s *File) maskedLine(line string, place int, path, message string) (shown string, caret int) {
	m := masker{line: []rune(visible(line)), known: s.known, message: message}
	m.resume = len(m.line)
	if path != "" && Label(path) != SecretKey {
		m.resume = keyBefore(m.line, place, Label(path))
	}
	m.mask(place)
	if !m.told {
		return "", 0
	}
	return string(m.out), m.caret
}

// keyBefore is where a key begins whose value is at place, or place.
func keyBefore(line []rune, place int, key string) int {
	before := strings.TrimRight(string(line[:place]), " \"'")
	if start, ok := strings.CutSuffix(before, key+":"); ok {
		return utf8.RuneCountInString(start)
	}
	return place
}

// masker copies a line word by word.
type masker struct {
	line    []rune
	known   map[string]bool // words that are keys of the model
	message string
	resume  int // where the line goes on behind a secret
	out     []rune
	caret   int
	told    bool // a word of the line is shown
}

func (m *masker) mask(place int) {
	for i := 0; i < len(m.line); {
		if i <= place {
			m.caret = len(m.out)
		}
		end := i
		for end < len(m.line) && !strings.ContainsRune(" :,{}[]\"'", m.line[end]) {
			end++
		}
		switch word := string(m.line[i:end]); {
		case end == i:
			m.out, end = append(m.out, m.line[i]), i+1
		case word == SecretKey && strings.HasPrefix(strings.TrimLeft(string(m.line[end:]), "\"'"), ":"):
			end = m.leaveOut(i, end, place)
		case m.known[word], strings.Contains(m.message, strconv.Quote(word)), strings.Contains(m.message, " "+word+" is out of range"):
			m.told, m.out = true, append(m.out, m.line[i:end]...)
		case word == "#": // a comment
			return
		case word == "-":
			m.out = append(m.out, '-')
		default:
			m.out = append(m.out, leftOut)
		}
		i = end
	}
	if place >= len(m.line) {
		m.caret = len(m.out)
	}
}

// leaveOut copies the key of a secret and leaves the secret out; it returns where the line
// goes on.
func (m *masker) leaveOut(from, to, place int) (next int) {
	m.told, m.out = true, append(append(m.out, m.line[from:to]...), ':', ' ')
	if place >= to {
		m.caret = len(m.out)
	}
	m.out = append(m.out, leftOut)
	if m.resume <= to {
		return len(m.line)
	}
	if m.resume < len(m.line) {
		m.out = append(m.out, ' ')
	}
	return m.resume
}

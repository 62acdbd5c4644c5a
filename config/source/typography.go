// SPDX-License-Identifier: Apache-2.0

package source

// Characters that a word processor or a web page puts in place of those that YAML knows:
// typographic quotes, long dashes, spaces that do not break. YAML takes them for part of
// the word, so that a key or a secret silently has one character more at each end.

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/token"
)

// OpeningQuotes begin a quotation in one language or another.
const OpeningQuotes = "“”„‟«»‹›‘’‚‛"

// singleQuotes are those that also stand for an apostrophe, as in ’s-Gravenhage.
const singleQuotes = "‘’‚‛"

// longDashes stand where a list's dash was meant.
const longDashes = "–—−‐‑‒―"

// checkTypography refuses words without quotes that begin with such a character, or hold
// a space that YAML does not know. Inside straight quotes they are what is meant.
func (s *File) checkTypography(tokens token.Tokens) (ok bool) {
	ok = true
	for _, t := range tokens {
		if t.Type != token.StringType || t.Position == nil || isBlockText(t) {
			continue
		}
		if at, what, hint := typographic(t.Value); what != "" {
			s.FailAt(Place{t.Position.Line, t.Position.Column + at}, "", what, hint)
			ok = false
		}
	}
	return ok
}

// isBlockText reports whether a word is the text of a block, as behind | or >.
func isBlockText(t *token.Token) bool {
	return t.Prev != nil && (t.Prev.Type == token.LiteralType || t.Prev.Type == token.FoldedType)
}

// typographic finds such a character in a word; at counts characters.
func typographic(word string) (at int, what, hint string) {
	runes := []rune(word)
	if len(runes) == 0 {
		return 0, "", ""
	}
	first, last := runes[0], runes[len(runes)-1]
	single := strings.ContainsRune(singleQuotes, first)
	if strings.ContainsRune(OpeningQuotes, first) && (!single || strings.ContainsRune(singleQuotes, last)) {
		return 0, "a typographic quote (" + string(first) + ") stands here", "write straight quotes (\"), or none"
	}
	if len(runes) > 1 && strings.ContainsRune(longDashes, first) && unicode.IsSpace(runes[1]) {
		return 0, "a long dash (" + string(first) + ") stands here", "begin each item of a list with \"- \""
	}
	for i, r := range runes {
		if r > unicode.MaxASCII && unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' {
			return i, fmt.Sprintf("a space that YAML does not know (U+%04X) stands here", r), "write an ordinary space"
		}
	}
	return 0, "", ""
}

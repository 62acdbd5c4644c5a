// SPDX-License-Identifier: Apache-2.0

package source

// From octets to a tree of mappings, lists and words, each with its place. The
// tree is the subset of YAML that a configuration needs: one document, no
// anchors, aliases, merge keys, tags or directives, so that what is written is
// what is meant and nothing can expand. Reading is bounded in size and depth.

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth bounds nesting; the model needs 8.
	maxDepth = 32
)

// Kind says what stands at a node.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Word
	List
	Mapping
)

// String names the kind in messages.
func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// Node is one value of the file.
type Node struct {
	Kind    Kind
	At      Place
	Text    string   // of a word
	Quoted  bool     // the word stands in quotes or is a block
	Length  *float64 // of a word that is a length of time, in seconds; nil for what was read
	Named   bool     // of a mapping: its keys are names that the file gives, not the model's
	Items   []*Node  // of a list
	Entries []Entry  // of a mapping
}

// Entry is one "key: value" of a mapping.
type Entry struct {
	Key   string
	At    Place
	Value *Node
}

// checkText refuses what is no text before YAML is looked at.
func (s *File) checkText() {
	for i, line := range s.lines {
		at, what, hint := badCharacter(line)
		if what == "" {
			continue
		}
		s.FailAt(Place{i + 1, at}, "", what, hint)
		return // one is enough: a file of them is not a text at all
	}
}

// badCharacter finds the first octets of a line that YAML or a reader of the
// file could take for something else.
func badCharacter(line string) (column int, what, hint string) {
	comment := false
	for i, r := range line {
		column++
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD"):
			return column, fmt.Sprintf("octet 0x%02x is not UTF-8", line[i]), "save the file as UTF-8"
		case r == '\uFEFF':
			return column, "a byte order mark stands here", "save the file as UTF-8 without one"
		case r == '\t' && !comment:
			return column, "a tab stands here", "use spaces"
		case r < ' ' && r != '\t', r == 0x7f, r >= 0x80 && r < 0xa0, r == '\u2028', r == '\u2029':
			return column, fmt.Sprintf("control character 0x%02x", r), "remove it"
		}
		comment = comment || r == '#'
	}
	return 0, "", ""
}

// tooDeep bounds the nesting before anything recurses over it. Block structure
// nests by columns, flow structure by brackets.
func tooDeep(tokens token.Tokens) (Place, bool) {
	var columns []int
	flow := 0
	for _, t := range tokens {
		column := 0
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			column = t.Position.Column
		case token.MappingValueType:
			column = keyColumn(t)
		}
		if flow == 0 && column > 0 {
			columns = nest(columns, column)
		}
		if flow+len(columns) > maxDepth {
			return Place{t.Position.Line, t.Position.Column}, true
		}
	}
	return Place{}, false
}

// keyColumn is where the key before a colon begins.
func keyColumn(colon *token.Token) int {
	if colon.Prev != nil && colon.Prev.Position.Line == colon.Position.Line {
		return colon.Prev.Position.Column
	}
	return colon.Position.Column
}

// nest replaces the open columns that a new one closes.
func nest(columns []int, column int) []int {
	for len(columns) > 0 && columns[len(columns)-1] >= column {
		columns = columns[:len(columns)-1]
	}
	return append(columns, column)
}

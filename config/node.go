// SPDX-License-Identifier: Apache-2.0

package config

// From octets to a tree of mappings, lists and words, each with its place. The
// tree is the subset of YAML that a configuration needs: one document, no
// anchors, aliases, merge keys, tags or directives, so that what is written is
// what is meant and nothing can expand. Reading is bounded in size and depth.

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFileOctets bounds a configuration: as many sites fit as there may be, with 300 octets each.
	maxFileOctets = 32 << 20
	// maxDepth bounds nesting; the model needs 8.
	maxDepth = 32
)

type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeWord
	nodeList
	nodeMapping
)

var nodeKindNames = [...]string{"nothing", "a single value", "a list", "a mapping"}

// node is one value of the file.
type node struct {
	kind    nodeKind
	at      place
	text    string  // of a word
	quoted  bool    // the word stands in quotes or is a block
	items   []*node // of a list
	entries []entry // of a mapping
}

// entry is one "key: value" of a mapping.
type entry struct {
	key   string
	at    place
	value *node
}

// parseTree reads the text; problems go to the source. It returns nil when there
// is nothing to go on with.
func parseTree(s *source, text string) *node {
	tokens := lexer.Tokenize(text)
	if at, deep := tooDeep(tokens); deep {
		s.failAt(at, "", fmt.Sprintf("nested more than %d levels deep", maxDepth), "no section of a configuration needs that")
		return nil
	}
	if !s.checkTypography(tokens) {
		return nil
	}
	file, err := parseTokens(tokens)
	if err != nil {
		s.failSyntax(err)
		return nil
	}
	body := s.document(file)
	if body == nil {
		return nil
	}
	b := treeBuilder{source: s}
	root := b.build(body)
	if len(s.problems) > 0 {
		return nil
	}
	return root
}

// parseTokens keeps a panic of the library from ending a daemon whose file is
// being read again: the library is not ours, and the file may be anything.
func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("this is not YAML")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkText refuses what is no text before YAML is looked at.
func (s *source) checkText() {
	for i, line := range s.lines {
		at, what, hint := badCharacter(line)
		if what == "" {
			continue
		}
		s.failAt(place{i + 1, at}, "", what, hint)
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
func tooDeep(tokens token.Tokens) (place, bool) {
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
			return place{t.Position.Line, t.Position.Column}, true
		}
	}
	return place{}, false
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

// failSyntax tells what the library found, with a hint where its words are not
// those of someone who writes configurations.
func (s *source) failSyntax(err error) {
	at, message := place{}, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		message = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			at = place{t.Position.Line, t.Position.Column}
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	s.failAt(at, "", "YAML: "+message, syntaxHint(message))
}

var syntaxHints = []struct{ part, hint string }{
	{"mapping value is not allowed", "check the indentation of the line below, and put a value with \": \" into quotes"},
	{"value is not allowed in this context", "check the indentation, and that quotes and brackets end where they should"},
	{"could not find end character", "the closing quote is missing"},
	{"must be specified", "the closing bracket is missing"},
	{"not found", "the closing bracket is missing"},
	{"reserved character", "put the value into quotes"},
	{"unexpected directive", "put the value into quotes"},
	{"unexpected key name", "a line without \": \" stands above this key"},
}

func syntaxHint(message string) string {
	for _, h := range syntaxHints {
		if strings.Contains(message, h.part) {
			return h.hint
		}
	}
	return "check the indentation, colons, quotes and brackets around it"
}

// document picks the only document of the file.
func (s *source) document(file *ast.File) ast.Node {
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case d.Body.Type() == ast.DirectiveType:
			s.failAt(placeOf(d.Body), "", "a YAML directive", "remove the line: a configuration needs none")
			return nil
		case body != nil:
			s.failAt(placeOf(d.Body), "", "a second document begins here", "a file holds one configuration: remove the line ---")
			return nil
		default:
			body = d.Body
		}
	}
	if body == nil {
		s.failAt(place{1, 1}, "", "the file is empty", "a configuration names at least one role: itr, etr, map-server or map-resolver")
	}
	return body
}

// placeOf is where a value begins: a block mapping at its first key, not at the
// colon that the library names.
func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

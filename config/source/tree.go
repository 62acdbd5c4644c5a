// SPDX-License-Identifier: Apache-2.0

package source

// The library's tree made ours: see node.go for what is left out and why.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// treeBuilder makes nodes and collects what is refused on the way.
type treeBuilder struct{ source *File }

func (b treeBuilder) build(n ast.Node) *Node {
	if n == nil {
		return &Node{At: Place{1, 1}}
	}
	out := &Node{At: placeOf(n)}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.Kind = Mapping
		b.mapping(out, n)
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range n.Values {
			out.Items = append(out.Items, b.build(item))
		}
	case *ast.NullNode:
	case *ast.LiteralNode:
		out.Kind, out.Quoted = Word, true
		out.Text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.StringNode:
		out.Kind, out.Text = Word, n.Value
		out.Quoted = isQuoted(n.Token)
		b.oneLine(out, n.Token)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = Word, n.GetToken().Value
	default:
		b.refuse(n, out.At)
	}
	return out
}

func isQuoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

// oneLine refuses a value that goes on in the next line: nearly always a line
// that is not indented as its author believed.
func (b treeBuilder) oneLine(n *Node, t *token.Token) {
	if n.Quoted || !strings.Contains(strings.TrimSpace(t.Origin), "\n") {
		return
	}
	b.source.FailAt(n.At, "", "a value that goes on over several lines", "check the indentation, or put it into quotes")
}

func (b treeBuilder) mapping(out *Node, m *ast.MappingNode) {
	seen := make(map[string]Place, len(m.Values))
	for _, value := range m.Values {
		at := placeOf(value.Key)
		key, ok := b.key(value.Key)
		if !ok {
			b.refuse(value.Key, at)
			continue
		}
		if first, twice := seen[key]; twice {
			b.source.FailAt(at, "", fmt.Sprintf("%q stands here twice", key), fmt.Sprintf("it is in line %d as well", first.line))
			continue
		}
		seen[key] = at
		b.spaced(value)
		out.Entries = append(out.Entries, Entry{Key: key, At: at, Value: b.build(value.Value)})
	}
}

// spaced refuses {a:b}, which the library reads as {a: b} and YAML as one word.
// Behind a key in quotes no space is needed: JSON is YAML.
func (b treeBuilder) spaced(value *ast.MappingValueNode) {
	colon := value.Start
	if colon == nil || colon.Position == nil || value.Value == nil || value.Value.Type() == ast.NullType || isQuoted(value.Key.GetToken()) {
		return
	}
	if at := placeOf(value.Value); at.line == colon.Position.Line && at.column == colon.Position.Column+1 {
		b.source.FailAt(at, "", "a space is missing behind the colon", "write \"key: value\"")
	}
}

// key is a key's text; only plain words are keys.
func (b treeBuilder) key(n ast.MapKeyNode) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// refuse tells about the parts of YAML that a configuration does without.
func (b treeBuilder) refuse(n ast.Node, at Place) {
	what := "this kind of YAML value is not supported"
	hint := "write plain keys and values"
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		what, hint = "anchors (&) and aliases (*) are not supported", "write the value out, or name a set in locator-sets; put a value that begins with & or * into quotes"
	case *ast.MergeKeyNode:
		what, hint = "merge keys (<<) are not supported", "write the keys out"
	case *ast.TagNode:
		what, hint = "tags (!) are not supported", "remove it, or put a value that begins with ! into quotes"
	case *ast.MappingKeyNode:
		what = "keys that begin with ? are not supported"
	}
	b.source.FailAt(at, "", what, hint)
}

// Tree reads the text; problems go to the source. It returns nil when there is nothing to
// go on with.
func (s *File) Tree() *Node {
	if !s.Failed() {
		s.checkText()
	}
	if s.Failed() {
		return nil
	}
	tokens := lexer.Tokenize(strings.Join(s.lines, "\n"))
	if at, deep := tooDeep(tokens); deep {
		s.FailAt(at, "", fmt.Sprintf("nested more than %d levels deep", maxDepth), "no section of a configuration needs that")
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

// document picks the only document of the file.
func (s *File) document(file *ast.File) ast.Node {
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case d.Body.Type() == ast.DirectiveType:
			s.FailAt(placeOf(d.Body), "", "a YAML directive", "remove the line: a configuration needs none")
			return nil
		case body != nil:
			s.FailAt(placeOf(d.Body), "", "a second document begins here", "a file holds one configuration: remove the line ---")
			return nil
		default:
			body = d.Body
		}
	}
	if body == nil {
		s.FailAt(Place{1, 1}, "", "the file is empty", "a configuration names at least one role: itr, etr, rtr, pitr, petr, map-server or map-resolver")
	}
	return body
}

// placeOf is where a value begins: a block mapping at its first key, not at the
// colon that the library names.
func placeOf(n ast.Node) Place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return Place{1, 1}
	}
	return Place{t.Position.Line, t.Position.Column}
}

// failSyntax tells what the library found, with a hint where its words are not
// those of someone who writes configurations.
func (s *File) failSyntax(err error) {
	at, message := Place{}, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		message = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			at = Place{t.Position.Line, t.Position.Column}
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	s.FailAt(at, "", "YAML: "+message, syntaxHint(message))
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

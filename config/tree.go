// SPDX-License-Identifier: Apache-2.0

package config

// The library's tree made ours: see node.go for what is left out and why.

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// treeBuilder makes nodes and collects what is refused on the way.
type treeBuilder struct{ source *source }

func (b treeBuilder) build(n ast.Node) *node {
	if n == nil {
		return &node{at: place{1, 1}}
	}
	out := &node{at: placeOf(n)}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = nodeMapping
		b.mapping(out, n)
	case *ast.SequenceNode:
		out.kind = nodeList
		for _, item := range n.Values {
			out.items = append(out.items, b.build(item))
		}
	case *ast.NullNode:
	case *ast.LiteralNode:
		out.kind, out.quoted = nodeWord, true
		out.text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.StringNode:
		out.kind, out.text = nodeWord, n.Value
		out.quoted = isQuoted(n.Token)
		b.oneLine(out, n.Token)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = nodeWord, n.GetToken().Value
	default:
		b.refuse(n, out.at)
	}
	return out
}

func isQuoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

// oneLine refuses a value that goes on in the next line: nearly always a line
// that is not indented as its author believed.
func (b treeBuilder) oneLine(n *node, t *token.Token) {
	if n.quoted || !strings.Contains(strings.TrimSpace(t.Origin), "\n") {
		return
	}
	b.source.failAt(n.at, "", "a value that goes on over several lines", "check the indentation, or put it into quotes")
}

func (b treeBuilder) mapping(out *node, m *ast.MappingNode) {
	seen := make(map[string]place, len(m.Values))
	for _, value := range m.Values {
		at := placeOf(value.Key)
		key, ok := b.key(value.Key)
		if !ok {
			b.refuse(value.Key, at)
			continue
		}
		if first, twice := seen[key]; twice {
			b.source.failAt(at, "", fmt.Sprintf("%q stands here twice", key), fmt.Sprintf("it is in line %d as well", first.line))
			continue
		}
		seen[key] = at
		b.spaced(value)
		out.entries = append(out.entries, entry{key: key, at: at, value: b.build(value.Value)})
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
		b.source.failAt(at, "", "a space is missing behind the colon", "write \"key: value\"")
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
func (b treeBuilder) refuse(n ast.Node, at place) {
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
	b.source.failAt(at, "", what, hint)
}

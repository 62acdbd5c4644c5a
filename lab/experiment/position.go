// SPDX-License-Identifier: Apache-2.0

package experiment

// Where a mistake is in the text of a file.

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// positionOf is "[line:column] " of what has a path in a text. Where the path leads through an alias, or to what is not
// there, it is that of what the path goes through.
func positionOf(text []byte, path string) string {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return ""
	}
	for ; path != "" && path != "$"; path = path[:strings.LastIndexAny(path, ".[")] {
		parsed, err := yaml.PathString(path)
		if err != nil {
			continue
		}
		if found, err := parsed.FilterFile(tree); err == nil && found != nil {
			return position(found)
		}
	}
	return ""
}

func position(n ast.Node) string {
	at := n.GetToken().Position
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		at = m.Values[0].Key.GetToken().Position // the node's own is that of a colon
	}
	return fmt.Sprintf("[%d:%d] ", at.Line, at.Column)
}

// withPosition adds its position to the error about an address, a prefix or a time: the library has it for all others.
func withPosition(err error, text []byte) error {
	var placed yaml.Error
	tree, unread := parser.ParseBytes(text, 0)
	if errors.As(err, &placed) || unread != nil {
		return err
	}
	for _, document := range tree.Docs {
		if wrong := unreadable(document.Body, reflect.TypeFor[File]()); wrong != nil {
			return fmt.Errorf("%s%w", position(wrong), err)
		}
	}
	return err
}

// unreadable is the first value below a node that does not read as what a type has in its place; nil where there is
// none.
func unreadable(n ast.Node, t reflect.Type) ast.Node {
	if n == nil || n.Type() == ast.AliasType {
		return nil // there is nothing, or what an alias stands for is looked at in its own place
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isText := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	if isText || t == reflect.TypeFor[time.Duration]() {
		if yaml.NodeToValue(n, reflect.New(t).Interface()) != nil {
			return n
		}
		return nil
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		return unreadable(n.Value, t)
	case *ast.SequenceNode:
		return unreadableItem(n, t)
	case *ast.MappingNode:
		return unreadableField(n, t)
	}
	return nil
}

func unreadableItem(n *ast.SequenceNode, t reflect.Type) ast.Node {
	if t.Kind() != reflect.Slice {
		return nil
	}
	for _, item := range n.Values {
		if wrong := unreadable(item, t.Elem()); wrong != nil {
			return wrong
		}
	}
	return nil
}

func unreadableField(n *ast.MappingNode, t reflect.Type) ast.Node {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, item := range n.Values {
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("yaml") != item.Key.GetToken().Value {
				continue
			}
			if wrong := unreadable(item.Value, t.Field(i).Type); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

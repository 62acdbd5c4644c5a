// SPDX-License-Identifier: Apache-2.0

package codec

// A tree as JSON, as YAML, and in one line. What is written as YAML reads back as the same
// tree. JSON is for programs, and has the spelling of all documents of Loci (package internal/jsondoc).

import (
	"encoding/json"
	"strconv"
	"strings"

	"loci/config/source"
)

// JSON writes a tree as JSON.
func JSON(n *source.Node) []byte { return appendJSON(nil, n) }

// YAML writes a tree as a file.
func YAML(n *source.Node) []byte { return appendYAML(nil, n, 0) }

func appendJSON(b []byte, n *source.Node) []byte {
	switch n.Kind {
	case source.Mapping:
		b = append(b, '{')
		for i, e := range n.Entries {
			b = append(appendQuoted(appendComma(b, i), jsonKey(n, e)), ':')
			b = appendJSON(b, e.Value)
		}
		return append(b, '}')
	case source.List:
		b = append(b, '[')
		for i, item := range n.Items {
			b = appendJSON(appendComma(b, i), item)
		}
		return append(b, ']')
	}
	switch {
	case n.Length != nil:
		return strconv.AppendFloat(b, *n.Length, 'f', -1, 64)
	case n.Quoted:
		return appendQuoted(b, n.Text)
	}
	return append(b, n.Text...)
}

// jsonKey joins the words of a key by underscores. Names that the file gives stay as they are.
func jsonKey(mapping *source.Node, e source.Entry) string {
	if mapping.Named {
		return e.Key
	}
	key := strings.ReplaceAll(e.Key, "-", "_")
	if e.Value.Length != nil {
		key += "_seconds"
	}
	return key
}

func appendComma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

func appendQuoted(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a string always has a JSON form
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

// appendYAML writes the lines of a mapping or a list.
func appendYAML(b []byte, n *source.Node, indent int) []byte {
	for _, e := range n.Entries {
		b = append(b, strings.Repeat(" ", indent)+e.Key+":"...)
		b = appendYAMLValue(b, e.Value, indent+2)
	}
	for _, item := range n.Items {
		b = append(b, strings.Repeat(" ", indent)+"-"...)
		if len(item.Entries) == 0 {
			b = appendYAMLValue(b, item, indent+2)
			continue
		}
		lines := appendYAML(nil, item, indent+2)
		b = append(append(b, ' '), lines[indent+2:]...) // its first line begins behind the dash
	}
	return b
}

// appendYAMLValue ends the line that a key or a dash began.
func appendYAMLValue(b []byte, n *source.Node, indent int) []byte {
	switch {
	case n.Kind == source.Word:
		return append(append(b, ' '), yamlWord(n)+"\n"...)
	case len(n.Entries)+len(n.Items) > 0:
		return appendYAML(append(b, '\n'), n, indent)
	case n.Kind == source.List:
		return append(b, " []\n"...)
	}
	return append(b, " {}\n"...)
}

// yamlWord quotes what some reader of YAML could take for something else.
func yamlWord(n *source.Node) string {
	if !n.Quoted {
		return n.Text
	}
	plain := n.Text != ""
	for i, r := range n.Text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/'
		plain = plain && (letter || i > 0 && strings.ContainsRune("0123456789-_./+", r))
	}
	switch strings.ToLower(n.Text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return n.Text
	}
	return strconv.Quote(n.Text)
}

// OneLine shows a value in a line; what has no value is "".
func OneLine(n *source.Node) string {
	if n == nil {
		return ""
	}
	var parts []string
	switch n.Kind {
	case source.Mapping:
		for _, e := range n.Entries {
			parts = append(parts, e.Key+": "+OneLine(e.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case source.List:
		for _, item := range n.Items {
			parts = append(parts, OneLine(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Text
}

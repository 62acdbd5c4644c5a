// SPDX-License-Identifier: Apache-2.0

package config

// The effective configuration: every key with its value, defaults included,
// secrets masked, in the order of the model. What it prints as YAML reads back as
// the same configuration, but for the secrets, which are refused until they are
// put back.

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"loci/lisp"
)

// nodeEncoder is a type with a form of its own; nil leaves the key out.
type nodeEncoder interface{ encodeNode() *node }

func (s SiteInterface) encodeNode() *node {
	return &node{kind: nodeMapping, entries: []entry{
		{key: "interface", value: encode(reflect.ValueOf(s.Interface))},
		{key: "vlan", value: encode(reflect.ValueOf(s.VLAN))},
		{key: "instance-id", value: encode(reflect.ValueOf(s.InstanceID))},
		{key: "hook", value: encode(reflect.ValueOf(s.Hook))},
		{key: "forwarding", value: encode(reflect.ValueOf(s.Forwarding))},
	}}
}

func (r RLOCs) encodeNode() *node {
	switch {
	case r.Name != "":
		return textNode(r.Name)
	case len(r.Locators) > 0:
		return encode(reflect.ValueOf(r.Locators))
	}
	return nil
}

// encodeNode leaves out what a locator of its kind does not have.
func (l Locator) encodeNode() *node {
	n := encodeSection(reflect.ValueOf(l))
	if l.Interface != "" {
		return n
	}
	kept := n.entries[:0]
	for _, e := range n.entries {
		if e.key != "address-family" {
			kept = append(kept, e)
		}
	}
	n.entries = kept
	return n
}

// encodeNode names the key file in place of what it holds.
func (k Key) encodeNode() *node {
	if k.File != "" {
		k.Value = Secret{}
	}
	return encodeSection(reflect.ValueOf(k))
}

// encode makes the tree of a value; nil for what has no value.
func encode(v reflect.Value) *node {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if special, ok := v.Interface().(nodeEncoder); ok {
		return special.encodeNode()
	}
	if word := encodeWord(v); word != nil {
		return word
	}
	switch v.Kind() {
	case reflect.Slice:
		return encodeList(v)
	case reflect.Map:
		return encodeNames(v)
	case reflect.Struct:
		return encodeSection(v)
	}
	return bareNode(fmt.Sprint(v.Interface())) // numbers and booleans
}

// encodeWord is the node of a type with a text form, nil for others. The zero
// value of a text is an empty node, which sections leave out.
func encodeWord(v reflect.Value) *node {
	switch value := v.Interface().(type) {
	case lisp.InstanceID:
		return bareNode(value.String())
	case netip.Addr:
		return addressNode(value, value.IsValid())
	case netip.AddrPort:
		if value.Port() == 0 {
			return addressNode(value.Addr(), value.IsValid())
		}
		return addressNode(value, value.IsValid())
	case time.Duration:
		return textNode(durationText(value))
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			return textNode("")
		}
		return textNode(string(text))
	}
	if v.Kind() == reflect.String {
		return textNode(v.String())
	}
	return nil
}

func addressNode(a fmt.Stringer, valid bool) *node {
	if !valid {
		return textNode("")
	}
	return textNode(a.String())
}

func textNode(text string) *node { return &node{kind: nodeWord, text: text, quoted: true} }
func bareNode(text string) *node { return &node{kind: nodeWord, text: text} }

func encodeList(v reflect.Value) *node {
	list := &node{kind: nodeList}
	for i := range v.Len() {
		list.items = append(list.items, encode(v.Index(i)))
	}
	return list
}

func encodeNames(v reflect.Value) *node {
	mapping := &node{kind: nodeMapping}
	names := map[string]reflect.Value{}
	for _, key := range v.MapKeys() {
		names[key.String()] = v.MapIndex(key)
	}
	for _, name := range sortedKeys(names) {
		mapping.entries = append(mapping.entries, entry{key: name, value: encode(names[name])})
	}
	return mapping
}

func encodeSection(v reflect.Value) *node {
	mapping := &node{kind: nodeMapping}
	for _, f := range fieldsOf(v.Type()) {
		value := encode(v.FieldByIndex(f.index))
		if value == nil || value.kind == nodeWord && value.text == "" {
			continue
		}
		mapping.entries = append(mapping.entries, entry{key: f.key, value: value})
	}
	return mapping
}

// MarshalJSON writes the effective configuration with the keys of the file.
func (c *Config) MarshalJSON() ([]byte, error) {
	return appendJSON(nil, encode(reflect.ValueOf(c))), nil
}

func appendJSON(b []byte, n *node) []byte {
	switch n.kind {
	case nodeMapping:
		b = append(b, '{')
		for i, e := range n.entries {
			b = appendComma(b, i)
			b = append(appendQuoted(b, e.key), ':')
			b = appendJSON(b, e.value)
		}
		return append(b, '}')
	case nodeList:
		b = append(b, '[')
		for i, item := range n.items {
			b = appendJSON(appendComma(b, i), item)
		}
		return append(b, ']')
	}
	if n.quoted {
		return appendQuoted(b, n.text)
	}
	return append(b, n.text...)
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

// YAML writes the effective configuration as a file.
func (c *Config) YAML() []byte {
	return appendYAML(nil, encode(reflect.ValueOf(c)), 0)
}

// appendYAML writes the lines of a mapping or a list.
func appendYAML(b []byte, n *node, indent int) []byte {
	for _, e := range n.entries {
		b = append(b, strings.Repeat(" ", indent)+e.key+":"...)
		b = appendYAMLValue(b, e.value, indent+2)
	}
	for _, item := range n.items {
		b = append(b, strings.Repeat(" ", indent)+"-"...)
		if len(item.entries) == 0 {
			b = appendYAMLValue(b, item, indent+2)
			continue
		}
		lines := appendYAML(nil, item, indent+2)
		b = append(append(b, ' '), lines[indent+2:]...) // its first line begins behind the dash
	}
	return b
}

// appendYAMLValue ends the line that a key or a dash began.
func appendYAMLValue(b []byte, n *node, indent int) []byte {
	switch {
	case n.kind == nodeWord:
		return append(append(b, ' '), yamlWord(n)+"\n"...)
	case len(n.entries)+len(n.items) > 0:
		return appendYAML(append(b, '\n'), n, indent)
	case n.kind == nodeList:
		return append(b, " []\n"...)
	}
	return append(b, " {}\n"...)
}

// yamlWord quotes what some reader of YAML could take for something else.
func yamlWord(n *node) string {
	if !n.quoted {
		return n.text
	}
	plain := n.text != ""
	for i, r := range n.text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/'
		plain = plain && (letter || i > 0 && strings.ContainsRune("0123456789-_./+", r))
	}
	switch strings.ToLower(n.text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return n.text
	}
	return strconv.Quote(n.text)
}

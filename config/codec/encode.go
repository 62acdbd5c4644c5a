// SPDX-License-Identifier: Apache-2.0

package codec

// From values to a tree: every key with its value, defaults included, in the order of the
// model. A type with a form of its own makes its node itself.

import (
	"encoding"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"loci/config/source"
	"loci/lisp"
)

// nodeEncoder is a type with a form of its own; nil leaves the key out.
type nodeEncoder interface{ EncodeNode() *source.Node }

// Encode makes the tree of a value; nil for what has no value.
func Encode(v reflect.Value) *source.Node {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if special, ok := v.Interface().(nodeEncoder); ok {
		return special.EncodeNode()
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
		return EncodeSection(v)
	}
	return bareNode(fmt.Sprint(v.Interface())) // numbers and booleans
}

// encodeWord is the node of a type with a text form, nil for others. The zero
// value of a text is an empty node, which sections leave out.
func encodeWord(v reflect.Value) *source.Node {
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
		return TextNode(DurationText(value))
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			return TextNode("")
		}
		return TextNode(string(text))
	}
	if v.Kind() == reflect.String {
		return TextNode(v.String())
	}
	return nil
}

func addressNode(a fmt.Stringer, valid bool) *source.Node {
	if !valid {
		return TextNode("")
	}
	return TextNode(a.String())
}

// TextNode is a word that a writer may have to quote.
func TextNode(text string) *source.Node {
	return &source.Node{Kind: source.Word, Text: text, Quoted: true}
}

func bareNode(text string) *source.Node { return &source.Node{Kind: source.Word, Text: text} }

func encodeList(v reflect.Value) *source.Node {
	list := &source.Node{Kind: source.List}
	for i := range v.Len() {
		list.Items = append(list.Items, Encode(v.Index(i)))
	}
	return list
}

func encodeNames(v reflect.Value) *source.Node {
	mapping := &source.Node{Kind: source.Mapping, Named: true}
	names := map[string]reflect.Value{}
	for _, key := range v.MapKeys() {
		names[key.String()] = v.MapIndex(key)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		mapping.Entries = append(mapping.Entries, source.Entry{Key: name, Value: Encode(names[name])})
	}
	return mapping
}

// EncodeSection makes the mapping of a struct, without the keys that have no value.
func EncodeSection(v reflect.Value) *source.Node {
	mapping := &source.Node{Kind: source.Mapping}
	for _, f := range FieldsOf(v.Type()) {
		value := Encode(v.FieldByIndex(f.Index))
		if value == nil || value.Kind == source.Word && value.Text == "" {
			continue
		}
		value.Length = lengthOf(v.FieldByIndex(f.Index), f.Tag.Get("unit"))
		mapping.Entries = append(mapping.Entries, source.Entry{Key: f.Key, Value: value})
	}
	return mapping
}

// lengthOf is the number of seconds of a value that is a length of time, nil for others.
func lengthOf(v reflect.Value, unit string) *float64 {
	var seconds float64
	switch value, isDuration := v.Interface().(time.Duration); {
	case isDuration:
		seconds = value.Seconds()
	case unit == "minutes" && v.CanUint():
		seconds = float64(v.Uint()) * time.Minute.Seconds()
	default:
		return nil
	}
	return &seconds
}

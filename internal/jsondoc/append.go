// SPDX-License-Identifier: Apache-2.0

package jsondoc

// Documents as JSON without garbage. A list of a million entries would else leave a gigabyte to be collected, and each
// collection delays messages. Types that it does not know go to encoding/json.

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// member is a field of a struct, or of a struct that is embedded in it.
type member struct {
	index []int
	key   string // with quotes and colon
}

// members has those of each type, a []member by reflect.Type.
var members sync.Map

func membersOf(t reflect.Type) []member {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	var list []member
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			for _, m := range membersOf(f.Type) {
				list = append(list, member{append([]int{i}, m.index...), m.key})
			}
		case tag != "" && tag != "-" && f.IsExported():
			list = append(list, member{[]int{i}, strconv.Quote(tag) + ":"})
		}
	}
	members.Store(t, list)
	return list
}

// appendValue appends an addressable value.
func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	if !v.CanAddr() {
		v = addressable(v)
	}
	switch special := v.Addr().Interface().(type) {
	case encoding.TextAppender: // first: it leaves no garbage, and time.Time has both
		return appendText(b, special)
	case json.Marshaler, encoding.TextMarshaler:
		return appendUnknown(b, v)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float64:
		return appendNumber(b, v.Float())
	case reflect.String:
		if v.Len() == 0 { // not known, or does not apply
			return append(b, "null"...), nil
		}
		return appendString(b, v.String())
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendValue(b, v.Elem())
	case reflect.Slice, reflect.Array:
		return appendList(b, v)
	case reflect.Map:
		return appendNames(b, v)
	}
	return appendUnknown(b, v)
}

// addressable copies a value, such as that of a map.
func addressable(v reflect.Value) reflect.Value {
	place := reflect.New(v.Type()).Elem()
	place.Set(v)
	return place
}

func appendUnknown(b []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Addr().Interface())
	return append(b, text...), err
}

// exponentAbove is where encoding/json begins to write exponents; small numbers get none here.
const exponentAbove = 1e21

func appendNumber(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, fmt.Errorf("%v has no form in JSON", f)
	}
	if math.Abs(f) >= exponentAbove {
		return strconv.AppendFloat(b, f, 'e', -1, 64), nil
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64), nil
}

func appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	for i, m := range membersOf(v.Type()) {
		if i > 0 {
			b = append(b, ',')
		}
		field := v
		for _, at := range m.index {
			field = field.Field(at)
		}
		if b, err = appendValue(append(b, m.key...), field); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendNames appends a map by the order of its keys.
func appendNames(b []byte, v reflect.Value) (_ []byte, err error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, key.String()); err != nil {
			return b, err
		}
		if b, err = appendValue(append(b, ':'), v.MapIndex(key)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendText(b []byte, text encoding.TextAppender) ([]byte, error) {
	from := len(b)
	b, err := text.AppendText(append(b, '"'))
	if err != nil {
		return b, err
	}
	if len(b) == from+1 {
		return append(b[:from], "null"...), nil
	}
	for _, c := range b[from+1:] {
		if !isPlain(c) {
			return appendString(b[:from], string(b[from+1:]))
		}
	}
	return append(b, '"'), nil
}

func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if !isPlain(s[i]) {
			return appendQuoted(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"'), nil
}

// isPlain reports whether an octet of a text stands in JSON as it is.
func isPlain(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

// appendQuoted appends a text in which some characters have another form. People read these texts too: < and > stay.
func appendQuoted(b []byte, s string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), err
}

// SPDX-License-Identifier: Apache-2.0

package apiserver

// Documents as JSON without garbage: what encoding/json makes of them, which a test
// compares. A list of a million entries would else leave a gigabyte to be collected, and
// each collection delays messages. Types that it does not know go to encoding/json.

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// jsonField is a field of a document.
type jsonField struct {
	index     int
	key       string // with quotes and colon
	omitEmpty bool
}

// jsonFields has the fields of each type of documents, a []jsonField by reflect.Type.
var jsonFields sync.Map

func fieldsOfDocument(t reflect.Type) []jsonField {
	if known, ok := jsonFields.Load(t); ok {
		return known.([]jsonField)
	}
	var fields []jsonField
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields = append(fields, jsonField{i, strconv.Quote(name) + ":", options == "omitempty"})
	}
	jsonFields.Store(t, fields)
	return fields
}

// appendDocument appends what a pointer to a document points to.
func appendDocument(b []byte, document any) ([]byte, error) {
	return appendJSON(b, reflect.ValueOf(document).Elem())
}

// appendJSON appends an addressable value.
func appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	if text, ok := v.Addr().Interface().(encoding.TextAppender); ok {
		return appendText(b, text)
	}
	if _, ok := v.Addr().Interface().(encoding.TextMarshaler); ok {
		return appendUnknown(b, v)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Pointer, reflect.Slice:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		if v.Kind() == reflect.Pointer {
			return appendJSON(b, v.Elem())
		}
		return appendSlice(b, v)
	}
	return appendUnknown(b, v)
}

func appendUnknown(b []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Addr().Interface())
	return append(b, text...), err
}

func appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	empty := len(b)
	for _, f := range fieldsOfDocument(v.Type()) {
		field := v.Field(f.index)
		if f.omitEmpty && isEmpty(field) {
			continue
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		if b, err = appendJSON(append(b, f.key...), field); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// isEmpty is what encoding/json takes for empty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		return false
	case reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

func appendSlice(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendText(b []byte, text encoding.TextAppender) ([]byte, error) {
	from := len(b)
	b, err := text.AppendText(append(b, '"'))
	if err != nil {
		return b, err
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
			text, err := json.Marshal(s)
			return append(b, text...), err
		}
	}
	return append(append(append(b, '"'), s...), '"'), nil
}

// isPlain reports whether encoding/json leaves an octet of a text as it is.
func isPlain(c byte) bool {
	return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

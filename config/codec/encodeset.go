// SPDX-License-Identifier: Apache-2.0

package codec

// What was set: the tree of a value without the keys that have their defaults.

import (
	"reflect"

	"loci/config/source"
)

// EncodeSet is Encode without the keys whose values are the defaults of their section. It reads back as the same value.
func (s *Schema) EncodeSet(v reflect.Value) *source.Node {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if _, special := v.Interface().(nodeEncoder); special || encodeWord(v) != nil {
		return Encode(v)
	}
	switch v.Kind() {
	case reflect.Slice:
		list := &source.Node{Kind: source.List}
		for i := range v.Len() {
			list.Items = append(list.Items, s.EncodeSet(v.Index(i)))
		}
		return list
	case reflect.Map:
		names := encodeNames(v)
		for i, e := range names.Entries {
			names.Entries[i].Value = s.EncodeSet(v.MapIndex(reflect.ValueOf(e.Key)))
		}
		return names
	case reflect.Struct:
		return s.encodeSetSection(v)
	}
	return Encode(v)
}

func (s *Schema) encodeSetSection(v reflect.Value) *source.Node {
	fresh := reflect.New(v.Type())
	s.Defaults(fresh.Interface())
	mapping := &source.Node{Kind: source.Mapping}
	for _, f := range FieldsOf(v.Type()) {
		value := v.FieldByIndex(f.Index)
		full := Encode(value)
		if full == nil || full.Kind == source.Word && full.Text == "" {
			continue
		}
		if f.Tag.Get("required") == "" && reflect.DeepEqual(full, Encode(fresh.Elem().FieldByIndex(f.Index))) {
			continue
		}
		set := s.EncodeSet(value)
		set.Length = lengthOf(value, f.Tag.Get("unit"))
		mapping.Entries = append(mapping.Entries, source.Entry{Key: f.Key, Value: set})
	}
	return mapping
}

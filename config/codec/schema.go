// SPDX-License-Identifier: Apache-2.0

package codec

// The model seen from outside: which keys a section has, where a key is at home,
// and which key is near a mistyped one. All of it comes from the struct tags.

import (
	"reflect"
	"slices"
	"strings"

	"loci/config/source"
)

// Field is one key of a section.
type Field struct {
	Key   string
	Index []int
	Tag   reflect.StructTag
	Type  reflect.Type
}

// Fields are the keys of a section, in the order of the model.
type Fields []Field

// FieldsOf lists the keys of a section in the order of the model.
func FieldsOf(t reflect.Type) Fields {
	var list Fields
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("key"); key != "" {
			list = append(list, Field{Key: key, Index: f.Index, Tag: f.Tag, Type: f.Type})
		}
	}
	return list
}

// Find returns the field of a key.
func (f Fields) Find(key string) (Field, bool) {
	i := slices.IndexFunc(f, func(f Field) bool { return f.Key == key })
	if i < 0 {
		return Field{}, false
	}
	return f[i], true
}

// Keys are the names.
func (f Fields) Keys() []string {
	list := make([]string, len(f))
	for i, field := range f {
		list[i] = field.Key
	}
	return list
}

// Schema say of a model what its struct tags do not.
type Schema struct {
	Root       reflect.Type
	Defaults   func(section any)             // sets the defaults of a section, given by a pointer
	RootHint   string                        // how a file begins
	Forms      map[reflect.Type]reflect.Type // types that are written as a list of another
	Samples    map[reflect.Type]string       // how types are written whose tags do not say it
	OtherNames map[string][]string           // words that people use for a key
	Removed    map[string]string             // the paths of keys that an earlier version had, with what to do about one
	Secret     reflect.Type                  // a section of which an unknown key may be a secret: it is not told
}

// All lists every key of the model, sections before what is in them.
func (s *Schema) All() []Key { return s.below(s.Root, "", nil) }

// Key is a key of the model by its path without indexes.
type Key struct {
	Path string
	Field
}

func (s *Schema) below(t reflect.Type, path string, list []Key) []Key {
	for _, f := range FieldsOf(t) {
		at := source.Join(path, f.Key)
		list = append(list, Key{Path: at, Field: f})
		if section, suffix := s.SectionOf(f.Type); section != nil {
			list = s.below(section, at+suffix, list)
		}
	}
	return list
}

// SectionOf is the struct with keys that a field holds, in a list or not; the
// suffix says how its path goes on.
func (s *Schema) SectionOf(t reflect.Type) (section reflect.Type, suffix string) {
	switch t.Kind() {
	case reflect.Pointer:
		return s.SectionOf(t.Elem())
	case reflect.Slice:
		section, suffix = s.SectionOf(t.Elem())
		return section, "[]" + suffix
	case reflect.Map:
		section, suffix = s.SectionOf(t.Elem())
		return section, ".NAME" + suffix
	case reflect.Struct:
		if item, ok := s.Forms[t]; ok {
			return item, "[]"
		}
		if len(FieldsOf(t)) > 0 {
			return t, ""
		}
	}
	return nil, ""
}

// sampleAt is how a value is written at a path, with its key. Words in capital letters are the reader's to fill in.
func (s *Schema) sampleAt(path string, t reflect.Type) string {
	form := s.sample(t)
	if strings.HasSuffix(path, "]") {
		form = "[" + form + "]"
	}
	return source.Label(path) + ": " + form
}

// sample is how a value of a type is written: what must be there, and nothing else.
func (s *Schema) sample(t reflect.Type) string {
	if form, ok := s.Samples[t]; ok {
		return form
	}
	if item, ok := s.Forms[t]; ok {
		return "[" + s.sample(item) + "]"
	}
	switch t {
	case typeAddr, typeAddrPort:
		return "ADDRESS"
	case typePrefix, typeNetwork:
		return "PREFIX"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.sample(t.Elem())
	case reflect.Slice:
		return "[" + s.sample(t.Elem()) + "]"
	case reflect.Map:
		return "{NAME: " + s.sample(t.Elem()) + "}"
	case reflect.Struct:
		return s.sectionSample(t)
	}
	return "VALUE"
}

// sectionSample has the keys that a section needs.
func (s *Schema) sectionSample(t reflect.Type) string {
	var required []string
	for _, f := range FieldsOf(t) {
		if f.Tag.Get("required") == "" {
			continue
		}
		form := s.sample(f.Type)
		if words := f.Tag.Get("oneof"); words != "" {
			form, _, _ = strings.Cut(words, ",")
		}
		required = append(required, f.Key+": "+form)
	}
	return "{" + strings.Join(required, ", ") + "}"
}

// maxHomes bounds the sections that a hint names.
const maxHomes = 3

// homesOf lists the sections that have a key of that name.
func (s *Schema) homesOf(key string) []string {
	var homes []string
	for _, k := range s.All() {
		if k.Key != key {
			continue
		}
		home := strings.ReplaceAll(strings.TrimSuffix(k.Path, "."+key), "[]", "")
		if k.Path == key {
			home = "the top level of the file"
		}
		if homes = append(homes, home); len(homes) == maxHomes {
			break
		}
	}
	return homes
}

// Nearest is the word closest to a mistyped one, "" when none is close.
func Nearest(word string, list []string) string {
	best, bestDistance := "", max(len(word)/3, 1)+1
	for _, candidate := range list {
		if len(word) > 2*len(candidate)+4 {
			continue
		}
		if d := distance(strings.ReplaceAll(strings.ToLower(word), "_", "-"), candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := previous[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}

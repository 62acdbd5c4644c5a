// SPDX-License-Identifier: Apache-2.0

package config

// The model seen from outside: which keys a section has, where a key is at home,
// and which key is near a mistyped one. All of it comes from the struct tags.

import (
	"reflect"
	"slices"
	"strings"
)

// field is one key of a section.
type field struct {
	key   string
	index []int
	tag   reflect.StructTag
	typ   reflect.Type
}

type fields []field

// fieldsOf lists the keys of a section in the order of the model.
func fieldsOf(t reflect.Type) fields {
	var list fields
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("key"); key != "" {
			list = append(list, field{key: key, index: f.Index, tag: f.Tag, typ: f.Type})
		}
	}
	return list
}

func (f fields) find(key string) (field, bool) {
	i := slices.IndexFunc(f, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return f[i], true
}

func (f fields) keys() []string {
	list := make([]string, len(f))
	for i, field := range f {
		list[i] = field.key
	}
	return list
}

// schemaKey is a key of the model by its path without indexes.
type schemaKey struct {
	path string
	field
}

// schema lists every key of the model, sections before what is in them.
func schema() []schemaKey { return schemaOf(reflect.TypeFor[Config](), "", nil) }

func schemaOf(t reflect.Type, path string, list []schemaKey) []schemaKey {
	for _, f := range fieldsOf(t) {
		at := join(path, f.key)
		list = append(list, schemaKey{path: at, field: f})
		if section, suffix := sectionOf(f.typ); section != nil {
			list = schemaOf(section, at+suffix, list)
		}
	}
	return list
}

// sectionOf is the struct with keys that a field holds, in a list or not; the
// suffix says how its path goes on.
func sectionOf(t reflect.Type) (section reflect.Type, suffix string) {
	switch t.Kind() {
	case reflect.Pointer:
		return sectionOf(t.Elem())
	case reflect.Slice:
		section, suffix = sectionOf(t.Elem())
		return section, "[]" + suffix
	case reflect.Map:
		section, suffix = sectionOf(t.Elem())
		return section, ".NAME" + suffix
	case reflect.Struct:
		if t == reflect.TypeFor[RLOCs]() {
			return reflect.TypeFor[Locator](), "[]"
		}
		if len(fieldsOf(t)) > 0 {
			return t, ""
		}
	}
	return nil, ""
}

// maxHomes bounds the sections that a hint names.
const maxHomes = 3

// homesOf lists the sections that have a key of that name.
func homesOf(key string) []string {
	var homes []string
	for _, k := range schema() {
		if k.key != key {
			continue
		}
		home := strings.ReplaceAll(strings.TrimSuffix(k.path, "."+key), "[]", "")
		if k.path == key {
			home = "the top level of the file"
		}
		if homes = append(homes, home); len(homes) == maxHomes {
			break
		}
	}
	return homes
}

// otherNames are words that people use for a key of ours.
var otherNames = map[string][]string{
	"address":       {"ms-address"},
	"map-server":    {"ms-address", "map-servers"},
	"key":           {"auth-key-value", "authentication-keys"},
	"secret":        {"auth-key-value"},
	"password":      {"auth-key-value"},
	"key-value":     {"auth-key-value"},
	"value":         {"auth-key-value"},
	"key-file":      {"auth-key-file"},
	"value-file":    {"auth-key-file"},
	"key-id":        {"auth-key-id"},
	"id":            {"auth-key-id", "site-id"},
	"algorithm":     {"auth-algorithm-id"},
	"key-type":      {"auth-algorithm-id"},
	"locator-set":   {"rlocs"},
	"locators":      {"rlocs"},
	"ttl":           {"record-ttl"},
	"time-to-live":  {"record-ttl"},
	"prefix":        {"eid"},
	"eid-prefix":    {"eid", "eid-prefixes"},
	"eid-address":   {"eid"},
	"iid":           {"instance-id"},
	"mp":            {"multicast-priority"},
	"mw":            {"multicast-weight"},
	"action":        {"map-reply-action"},
	"database":      {"local-eids"},
	"eids":          {"local-eids"},
	"interface-ref": {"interface"},
	"listen":        {"addresses"},
	"size":          {"limit"},
	"static":        {"mappings"},
	"name":          {"interface"},
	"timeout":       {"mapping-expiration-timeout"},

	"accept-more-specifics": {"more-specifics-accepted"},
	"database-mapping":      {"local-eids"},
}

// nearest is the word closest to a mistyped one, "" when none is close.
func nearest(word string, list []string) string {
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

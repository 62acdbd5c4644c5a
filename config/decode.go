// SPDX-License-Identifier: Apache-2.0

package config

// From the tree to the model: strict, and in the words of the file. Every key of
// the file must be one of the model, every value of its type and range; the place
// of each value is kept under its path. The model's struct tags say it all:
//
//	key       the name in the file
//	required  must be there, and a list must not be empty
//	range     bounds of a number or a duration
//	unit      of a duration written as a bare number
//	oneof     the words that a string may be
//	max       most items of a list or a mapping of names

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"loci/lisp"
)

// nodeDecoder is a type that may be written in more than one form.
type nodeDecoder interface {
	decodeNode(d decoder, n *node, path string)
}

// decoder reads values and leaves problems and places in its source.
type decoder struct{ *source }

var (
	typeAddr     = reflect.TypeFor[netip.Addr]()
	typeAddrPort = reflect.TypeFor[netip.AddrPort]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeInstance = reflect.TypeFor[lisp.InstanceID]()
	typePrefix   = reflect.TypeFor[lisp.Prefix]()
	typeNetwork  = reflect.TypeFor[netip.Prefix]()
)

// value reads n into v by the rules of the field's tag.
func (d decoder) value(n *node, v reflect.Value, rules reflect.StructTag, path string) {
	d.places[path] = n.at
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	target := v.Addr().Interface()
	if preset, ok := target.(defaulter); ok {
		preset.setDefaults()
	}
	if special, ok := target.(nodeDecoder); ok {
		special.decodeNode(d, n, path)
		return
	}
	if isWord(v) {
		d.word(n, v, rules, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(n, v, path)
	case reflect.Slice:
		d.list(n, v, rules, path)
	case reflect.Map:
		d.names(n, v, rules, path)
	}
}

// isWord reports whether a value of the type is one word in the file.
func isWord(v reflect.Value) bool {
	switch v.Type() {
	case typeAddr, typeAddrPort, typeDuration, typePrefix:
		return true
	}
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return true
	}
	return v.Kind() != reflect.Struct && v.Kind() != reflect.Slice && v.Kind() != reflect.Map
}

// expect reports whether n is of the kind, and tells when it is not.
func (d decoder) expect(n *node, kind nodeKind, path string) bool {
	if n.kind == kind {
		return true
	}
	hint := map[nodeKind]string{
		nodeMapping: "write \"key: value\" lines below it, or {} for the defaults",
		nodeList:    "begin each item with \"- \", or write [a, b]",
		nodeWord:    "write it in the same line, behind the colon",
	}[kind]
	switch {
	case path == "":
		hint = "begin with a section: itr, etr, map-server or map-resolver, and a colon"
	case n.kind == nodeNull:
		d.fail(path, label(path)+": the value is missing", hint)
		return false
	}
	d.fail(path, fmt.Sprintf("%s: %s stands here, not %s", label(path), nodeKindNames[n.kind], nodeKindNames[kind]), hint)
	return false
}

// label is the last key of a path.
func label(path string) string {
	if path == "" {
		return "the file"
	}
	if i := strings.IndexByte(path[strings.LastIndexByte(path, '.')+1:], '['); i >= 0 {
		path = path[:strings.LastIndexByte(path, '.')+1+i]
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// section reads a mapping into a struct.
func (d decoder) section(n *node, v reflect.Value, path string) {
	if !d.expect(n, nodeMapping, path) {
		return
	}
	fields := fieldsOf(v.Type())
	present := make(map[string]bool, len(n.entries))
	for _, e := range n.entries {
		present[e.key] = true
		f, ok := fields.find(e.key)
		if !ok {
			present[d.unknownKey(e, v.Type(), path)] = true // one mistake, one message
			continue
		}
		d.value(e.value, v.FieldByIndex(f.index), f.tag, join(path, e.key))
	}
	for _, f := range fields {
		if f.tag.Get("required") != "" && !present[f.key] {
			d.fail(path, fmt.Sprintf("%q is missing%s", f.key, inSection(path)), "it has no default")
		}
	}
}

// removedKeys are the paths of keys that an earlier version had, with what to do about one.
var removedKeys = map[string]string{
	"datapath.power-save": "remove it: Loci leaves power management to the host",
}

// unknownKey tells about a key that the section does not have and returns the one
// that was probably meant. What stands among the keys of a site may be a secret
// that got into the wrong place: it is not repeated unless it resembles a key.
func (d decoder) unknownKey(e entry, section reflect.Type, path string) string {
	name, _, glued := strings.Cut(e.key, ":")
	near, hint := keyHint(name, section)
	if what, ok := removedKeys[join(path, name)]; ok {
		near, hint = "", what
	}
	_, known := fieldsOf(section).find(name)
	what := fmt.Sprintf("unknown key %q", name)
	if section == reflect.TypeFor[Key]() && near == "" && !known {
		what = "an unknown key"
	}
	if glued {
		hint = "put a space behind the colon, or quotes around the whole"
	}
	d.failAt(e.at, path, what+inSection(path), hint)
	return near
}

func inSection(path string) string {
	if path == "" {
		return ""
	}
	return " in " + label(path)
}

// list reads a list into a slice.
func (d decoder) list(n *node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, nodeList, path) || d.tooMany(len(n.items), rules, path) {
		return
	}
	if len(n.items) == 0 && rules.Get("required") != "" {
		d.fail(path, label(path)+": the list is empty", "want at least one item")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		d.value(item, v.Index(i), rules, path+"["+strconv.Itoa(i)+"]")
	}
}

// names reads a mapping whose keys are names that the author chose.
func (d decoder) names(n *node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, nodeMapping, path) || d.tooMany(len(n.entries), rules, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.entries {
		if !validName(e.key) {
			d.failAt(e.at, join(path, e.key), fmt.Sprintf("%q is not a name", e.key), nameHint)
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, item, "", join(path, e.key))
		v.SetMapIndex(reflect.ValueOf(e.key), item)
	}
}

const nameHint = "want 1 to 64 letters, digits, - and _, the first one a letter"

func validName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9') && r != '-' && r != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func (d decoder) tooMany(count int, rules reflect.StructTag, path string) bool {
	limit, err := strconv.Atoi(rules.Get("max"))
	if err != nil || count <= limit {
		return false
	}
	d.fail(path, fmt.Sprintf("%s: %d items", label(path), count), fmt.Sprintf("want at most %d", limit))
	return true
}

// word reads one word.
func (d decoder) word(n *node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, nodeWord, path) {
		return
	}
	message, hint := setWord(n, v, rules)
	if message != "" {
		d.fail(path, label(path)+": "+message, hint)
		return
	}
	d.remember(n.text, v, path)
}

// remember keeps what is looked at again when the whole file is known, and warns of
// words that are right and hardly meant.
func (d decoder) remember(text string, v reflect.Value, path string) {
	switch value := v.Interface().(type) {
	case netip.Addr:
		d.addresses = append(d.addresses, placedAddress{value, path})
	case netip.AddrPort:
		if value.Port() == 0 {
			d.addresses = append(d.addresses, placedAddress{value.Addr(), path})
		}
	case lisp.Prefix, netip.Prefix:
		d.warnOfLostMask(text, path)
	}
}

func setWord(n *node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	switch v.Type() {
	case typeAddr:
		return setAddr(n.text, v.Addr().Interface().(*netip.Addr))
	case typeAddrPort:
		return setAddrPort(n.text, v.Addr().Interface().(*netip.AddrPort))
	case typeDuration:
		return setDuration(n, v, rules)
	case typePrefix:
		return setPrefix(n.text, v.Addr().Interface().(*lisp.Prefix))
	case typeNetwork:
		return setNetwork(n.text, v.Addr().Interface().(*netip.Prefix))
	case typeInstance:
		rules = `range:"0..16777214"`
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if words := rules.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), n.text) {
			return notOneOf(n.text, strings.Split(words, ","))
		}
		return splitError(text.UnmarshalText([]byte(n.text)))
	}
	switch v.Kind() {
	case reflect.Bool:
		return setBool(n, v)
	case reflect.String:
		return setString(n.text, v, rules)
	}
	return setNumber(n, v, rules)
}

// splitError parts "what is wrong: hint".
func splitError(err error) (message, hint string) {
	if err == nil {
		return "", ""
	}
	message, hint, ok := strings.Cut(err.Error(), ": want ")
	if ok {
		hint = "want " + hint
	}
	return message, hint
}

// keyHint says which key may have been meant: one of this section, or the section
// that has such a key, or what this section knows.
func keyHint(key string, section reflect.Type) (near, hint string) {
	fields := fieldsOf(section)
	near = nearest(key, fields.keys())
	for _, other := range otherNames[key] {
		if _, ok := fields.find(other); ok && near == "" {
			near = other
		}
	}
	homes := homesOf(key)
	switch {
	case near != "" && len(homes) > 0 && otherNames[key] == nil:
		return near, fmt.Sprintf("did you mean %q? (%q belongs in %s)", near, key, strings.Join(homes, " or "))
	case near != "":
		return near, fmt.Sprintf("did you mean %q?", near)
	case len(homes) > 0:
		return "", "it belongs in " + strings.Join(homes, " or ")
	}
	return "", "known here: " + strings.Join(fields.keys(), ", ")
}

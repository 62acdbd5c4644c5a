// SPDX-License-Identifier: Apache-2.0

package codec

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

	"loci/config/source"
	"loci/lisp"
)

// nodeDecoder is a type that may be written in more than one form.
type nodeDecoder interface {
	DecodeNode(d *Decoder, n *source.Node, path string)
}

// Decoder reads values and leaves problems and places in its source.
type Decoder struct {
	*source.File
	keys      *Schema
	addresses []PlacedAddress
}

// Decode reads a tree into a section, a pointer to a struct, and returns the addresses
// without a port that the file gives, in its order.
func Decode(s *source.File, keys *Schema, root *source.Node, section any) []PlacedAddress {
	d := &Decoder{File: s, keys: keys}
	d.value(root, reflect.ValueOf(section).Elem(), "", "")
	return d.addresses
}

var (
	typeAddr     = reflect.TypeFor[netip.Addr]()
	typeAddrPort = reflect.TypeFor[netip.AddrPort]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeInstance = reflect.TypeFor[lisp.InstanceID]()
	typePrefix   = reflect.TypeFor[lisp.Prefix]()
	typeNetwork  = reflect.TypeFor[netip.Prefix]()
)

// value reads n into v by the rules of the field's tag.
func (d *Decoder) value(n *source.Node, v reflect.Value, rules reflect.StructTag, path string) {
	d.SetPlace(path, n.At)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	target := v.Addr().Interface()
	d.keys.Defaults(target)
	if special, ok := target.(nodeDecoder); ok {
		special.DecodeNode(d, n, path)
		return
	}
	if isWord(v) {
		d.Word(n, v, rules, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.Section(n, v, path)
	case reflect.Slice:
		d.List(n, v, rules, path)
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

// expect reports whether n is of the kind that a type is written as, and tells when it is not.
func (d *Decoder) expect(n *source.Node, kind source.Kind, t reflect.Type, path string) bool {
	if n.Kind == kind {
		return true
	}
	hint := "write it in the same line, behind the colon"
	switch {
	case path == "":
		hint = d.keys.RootHint
	case kind != source.Word || strings.HasSuffix(path, "]"):
		hint = "write it as in " + d.keys.sampleAt(path, t)
	}
	if path != "" && n.Kind == source.Null {
		d.Fail(path, source.Label(path)+": the value is missing", hint)
		return false
	}
	d.Fail(path, fmt.Sprintf("%s: %s stands here, not %s", source.Label(path), n.Kind, kind), hint)
	return false
}

// Section reads a mapping into a struct.
func (d *Decoder) Section(n *source.Node, v reflect.Value, path string) {
	if !d.expect(n, source.Mapping, v.Type(), path) {
		return
	}
	fields := FieldsOf(v.Type())
	present := make(map[string]bool, len(n.Entries))
	for _, e := range n.Entries {
		present[e.Key] = true
		f, ok := fields.Find(e.Key)
		if !ok {
			present[d.unknownKey(e, v.Type(), path)] = true // one mistake, one message
			continue
		}
		d.value(e.Value, v.FieldByIndex(f.Index), f.Tag, source.Join(path, e.Key))
	}
	for _, f := range fields {
		if f.Tag.Get("required") != "" && !present[f.Key] {
			d.Fail(path, fmt.Sprintf("%q is missing%s", f.Key, inSection(path)), "it has no default")
		}
	}
}

// unknownKey tells about a key that the section does not have and returns the one
// that was probably meant. What stands among the keys of a site may be a secret
// that got into the wrong place: it is not repeated unless it resembles a key.
func (d *Decoder) unknownKey(e source.Entry, section reflect.Type, path string) string {
	name, _, glued := strings.Cut(e.Key, ":")
	near, hint := d.keyHint(name, section)
	if what, ok := d.keys.Removed[source.Join(path, name)]; ok {
		near, hint = "", what
	}
	_, known := FieldsOf(section).Find(name)
	what := fmt.Sprintf("unknown key %q", name)
	if section == d.keys.Secret && near == "" && !known {
		what = "an unknown key"
	}
	if glued {
		hint = "put a space behind the colon, or quotes around the whole"
	}
	d.FailAt(e.At, path, what+inSection(path), hint)
	return near
}

func inSection(path string) string {
	if path == "" {
		return ""
	}
	return " in " + source.Label(path)
}

// List reads a list into a slice.
func (d *Decoder) List(n *source.Node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, source.List, v.Type(), path) || d.tooMany(len(n.Items), rules, path) {
		return
	}
	if len(n.Items) == 0 && rules.Get("required") != "" {
		d.Fail(path, source.Label(path)+": the list is empty", "want at least one item")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		d.value(item, v.Index(i), rules, path+"["+strconv.Itoa(i)+"]")
	}
}

// names reads a mapping whose keys are names that the author chose.
func (d *Decoder) names(n *source.Node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, source.Mapping, v.Type(), path) || d.tooMany(len(n.Entries), rules, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.Entries {
		if !ValidName(e.Key) {
			d.FailAt(e.At, source.Join(path, e.Key), fmt.Sprintf("%q is not a name", e.Key), NameHint)
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.Value, item, "", source.Join(path, e.Key))
		v.SetMapIndex(reflect.ValueOf(e.Key), item)
	}
}

// NameHint says what a name looks like.
const NameHint = "want 1 to 64 letters, digits, - and _, the first one a letter"

// ValidName reports whether a text is a name that an author may choose.
func ValidName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9') && r != '-' && r != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func (d *Decoder) tooMany(count int, rules reflect.StructTag, path string) bool {
	limit, err := strconv.Atoi(rules.Get("max"))
	if err != nil || count <= limit {
		return false
	}
	d.Fail(path, fmt.Sprintf("%s: %d items", source.Label(path), count), fmt.Sprintf("want at most %d", limit))
	return true
}

// Word reads one word.
func (d *Decoder) Word(n *source.Node, v reflect.Value, rules reflect.StructTag, path string) {
	if !d.expect(n, source.Word, v.Type(), path) {
		return
	}
	message, hint := setWord(n, v, rules)
	if message != "" {
		d.Fail(path, source.Label(path)+": "+message, hint)
		return
	}
	d.remember(n.Text, v, path)
}

// remember keeps what is looked at again when the whole file is known, and warns of
// words that are right and hardly meant.
func (d *Decoder) remember(text string, v reflect.Value, path string) {
	switch value := v.Interface().(type) {
	case netip.Addr:
		d.addresses = append(d.addresses, PlacedAddress{value, path})
	case netip.AddrPort:
		if value.Port() == 0 {
			d.addresses = append(d.addresses, PlacedAddress{value.Addr(), path})
		}
	case lisp.Prefix, netip.Prefix:
		d.warnOfLostMask(text, path)
	}
}

func setWord(n *source.Node, v reflect.Value, rules reflect.StructTag) (message, hint string) {
	switch v.Type() {
	case typeAddr:
		return setAddr(n.Text, v.Addr().Interface().(*netip.Addr))
	case typeAddrPort:
		return setAddrPort(n.Text, v.Addr().Interface().(*netip.AddrPort))
	case typeDuration:
		return setDuration(n, v, rules)
	case typePrefix:
		return setPrefix(n.Text, v.Addr().Interface().(*lisp.Prefix))
	case typeNetwork:
		return setNetwork(n.Text, v.Addr().Interface().(*netip.Prefix))
	case typeInstance:
		rules = `range:"0..16777214"`
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if words := rules.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), n.Text) {
			return notOneOf(n.Text, strings.Split(words, ","))
		}
		return SplitError(text.UnmarshalText([]byte(n.Text)))
	}
	switch v.Kind() {
	case reflect.Bool:
		return setBool(n, v)
	case reflect.String:
		return setString(n.Text, v, rules)
	}
	return setNumber(n, v, rules)
}

// keyHint says which key may have been meant: one of this section, or the section
// that has such a key, or what this section knows.
func (d *Decoder) keyHint(key string, section reflect.Type) (near, hint string) {
	fields := FieldsOf(section)
	near = Nearest(key, fields.Keys())
	for _, other := range d.keys.OtherNames[key] {
		if _, ok := fields.Find(other); ok && near == "" {
			near = other
		}
	}
	homes := d.keys.homesOf(key)
	switch {
	case near != "" && len(homes) > 0 && d.keys.OtherNames[key] == nil:
		return near, fmt.Sprintf("did you mean %q? (%q belongs in %s)", near, key, strings.Join(homes, " or "))
	case near != "":
		return near, fmt.Sprintf("did you mean %q?", near)
	case len(homes) > 0:
		return "", "it belongs in " + strings.Join(homes, " or ")
	}
	return "", "known here: " + strings.Join(fields.Keys(), ", ")
}

// warnOfLostMask warns of a prefix that names a network and has no mask length: it is a
// single address then.
func (d *Decoder) warnOfLostMask(text, path string) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	octets := a.AsSlice()
	hostPart := octets[len(octets)-1:]
	if a.Is6() {
		hostPart = octets[8:]
	}
	if strings.Trim(string(hostPart), "\x00") == "" {
		d.Warn(path, fmt.Sprintf("%s: %s without a mask length is a single address", source.Label(path), a), fmt.Sprintf("write %s/%d if that is meant, else the mask length of the network", a, a.BitLen()))
	}
}

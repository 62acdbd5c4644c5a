// SPDX-License-Identifier: Apache-2.0

// Package difference compares two values of a configuration's model: which keys changed, from what to what. Items of
// lists are told apart by what names them (an address, a prefix, a name), not by their position. It knows no key, and
// shows secrets masked.
package difference

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"loci/config/codec"
	"loci/config/source"
)

// Change is one key that differs. Old is empty for what is new, New for what is
// gone; sections that come or go whole are one change.
type Change struct {
	Path string
	Old  string
	New  string
}

// String is "path: old -> new".
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Path + ": added " + c.New
	case c.New == "":
		return c.Path + ": removed " + c.Old
	}
	return c.Path + ": " + c.Old + " -> " + c.New
}

// Model says of the compared values what their types do not.
type Model struct {
	Schema   *codec.Schema
	IsWhole  func(reflect.Type) bool // values of the type are shown in one piece
	Identity func(item any) string   // names an item of a list among its like
}

// Of lists what changes from one section to the next, in the order of the model; nil when both mean the same.
func (m Model) Of(old, fresh reflect.Value) []Change {
	d := differ{model: m}
	d.section(old, fresh, "")
	return d.changes
}

type differ struct {
	model   Model
	changes []Change
}

func (d *differ) add(path, old, fresh string) {
	d.changes = append(d.changes, Change{Path: path, Old: old, New: fresh})
}

// value compares two values of one type.
func (d *differ) value(old, fresh reflect.Value, path string) {
	if old.Kind() == reflect.Pointer {
		if old.IsNil() || fresh.IsNil() {
			d.whole(old, fresh, path)
			return
		}
		old, fresh = old.Elem(), fresh.Elem()
	}
	section, _ := d.model.Schema.SectionOf(old.Type())
	switch {
	case section == nil || d.model.IsWhole(old.Type()):
		d.whole(old, fresh, path)
	case old.Kind() == reflect.Slice:
		d.list(old, fresh, path)
	case old.Kind() == reflect.Map:
		d.names(old, fresh, path)
	default:
		d.section(old, fresh, path)
	}
}

func (d *differ) section(old, fresh reflect.Value, path string) {
	for _, f := range codec.FieldsOf(old.Type()) {
		d.value(old.FieldByIndex(f.Index), fresh.FieldByIndex(f.Index), source.Join(path, f.Key))
	}
}

// whole compares values that are shown in one piece.
func (d *differ) whole(old, fresh reflect.Value, path string) {
	if old.Kind() == reflect.Slice && old.Len()+fresh.Len() == 0 {
		return // one is nil, the other empty
	}
	if !reflect.DeepEqual(old.Interface(), fresh.Interface()) {
		d.add(path, codec.OneLine(codec.Encode(old)), codec.OneLine(codec.Encode(fresh)))
	}
}

func (d *differ) names(old, fresh reflect.Value, path string) {
	all := map[string]bool{}
	for _, key := range append(old.MapKeys(), fresh.MapKeys()...) {
		all[key.String()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		key := reflect.ValueOf(name)
		d.pair(old.MapIndex(key), fresh.MapIndex(key), source.Join(path, name))
	}
}

// pair compares two items of which one may be missing.
func (d *differ) pair(old, fresh reflect.Value, path string) {
	switch {
	case !old.IsValid():
		d.add(path, "", codec.OneLine(codec.Encode(fresh)))
	case !fresh.IsValid():
		d.add(path, codec.OneLine(codec.Encode(old)), "")
	default:
		d.value(old, fresh, path)
	}
}

func (d *differ) list(old, fresh reflect.Value, path string) {
	before, after := d.itemsOf(old), d.itemsOf(fresh)
	for _, name := range before.order {
		d.pair(before.byName[name], after.byName[name], path+"["+name+"]")
	}
	for _, name := range after.order {
		if !before.byName[name].IsValid() {
			d.pair(reflect.Value{}, after.byName[name], path+"["+name+"]")
		}
	}
	d.order(before, after, path)
}

// order tells about items that only changed places: some lists are asked in order.
func (d *differ) order(before, after items, path string) {
	stayed := func(list []string, other items) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !other.byName[name].IsValid() })
	}
	old, fresh := stayed(before.order, after), stayed(after.order, before)
	if !slices.Equal(old, fresh) {
		d.add(path, "order "+strings.Join(old, ", "), "order "+strings.Join(fresh, ", "))
	}
}

// items are a list's items by what names them.
type items struct {
	order  []string
	byName map[string]reflect.Value
}

func (d *differ) itemsOf(list reflect.Value) items {
	found := items{byName: map[string]reflect.Value{}}
	for i := range list.Len() {
		name := d.model.Identity(list.Index(i).Interface())
		for found.byName[name].IsValid() {
			name += "'" // one that validation let stand twice
		}
		found.order = append(found.order, name)
		found.byName[name] = list.Index(i)
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0

package multipath

// What tells the paths of a mapping apart, and whether it can (RFC 8060 s.4.6). Nothing here reads a file.

import (
	"fmt"
	"reflect"
	"strings"

	"loci/lisp"
)

// Identification says what tells a router that stands on several paths of a mapping which one a packet is on.
type Identification string

// What tells it.
const (
	ByNumber     Identification = "pid" // the number of the path, in place of the Instance-ID
	BySource     Identification = "eld" // the hop before the router, which is the outer source
	Unidentified Identification = "off"
)

// RefuseInstances refuses the Instance-IDs other than 0 of a section, beside numbers of paths, which take their place; key
// is where those are asked for.
func RefuseInstances(key string, section any, fail func(path, message, hint string)) {
	v := reflect.Indirect(reflect.ValueOf(section))
	if !v.IsValid() {
		return
	}
	eachInstance(strings.ToLower(v.Type().Name()), v, func(path string, instance lisp.InstanceID) {
		fail(path, fmt.Sprintf("instance-id: %s beside %s: pid, which writes numbers of paths in place of Instance-IDs", instance, key), "want Instance-ID 0 only, or path-identification: eld")
	})
}

// eachInstance finds the Instance-IDs other than 0 in a value, by the keys of its fields.
func eachInstance(path string, v reflect.Value, found func(string, lisp.InstanceID)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachInstance(path, v.Elem(), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachInstance(fmt.Sprintf("%s[%d]", path, i), v.Index(i), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("key"), ","); key != "" {
				eachInstance(path+"."+key, v.Field(i), found)
			}
		}
	default:
		if v.Type() == reflect.TypeFor[lisp.InstanceID]() && !v.IsZero() {
			found(path, lisp.InstanceID(v.Uint()))
		}
	}
}

// Apart finds paths that BySource does not tell apart. The zero value has none.
type Apart struct {
	paths []lisp.Path
}

// Add adds a path of a set, and says why it cannot be told from those before; empty where it can.
func (a *Apart) Add(p lisp.Path) (why string) {
	for i := 0; i+2 < p.Len() && why == ""; i++ {
		if p.Hop(i).Is4() != p.Hop(i+1).Is4() {
			why = fmt.Sprintf("hops %s and %s are of two families: packets do not come from the address of the first", p.Hop(i), p.Hop(i+1))
		}
	}
	for _, before := range a.paths {
		if shared := sharedLink(before, p); shared != "" && why == "" {
			why = fmt.Sprintf("it shares %s with %s", shared, before)
		}
	}
	a.paths = append(a.paths, p)
	return why
}

// sharedLink is the first hop or the link between RTRs that two paths share; empty where there is none.
func sharedLink(a, b lisp.Path) string {
	if a.Len() > 1 && b.Len() > 1 && a.Hop(0).Addr() == b.Hop(0).Addr() {
		return fmt.Sprintf("the first hop %s", a.Hop(0))
	}
	for i := 0; i+2 < a.Len(); i++ {
		for j := 0; j+2 < b.Len(); j++ {
			if a.Hop(i).Addr() == b.Hop(j).Addr() && a.Hop(i+1).Addr() == b.Hop(j+1).Addr() {
				return fmt.Sprintf("the link %s -> %s", a.Hop(i), a.Hop(i+1))
			}
		}
	}
	return ""
}

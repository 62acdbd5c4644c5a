// SPDX-License-Identifier: Apache-2.0

package config

// The values that may be written in a short form as well: a word for the usual
// case, a mapping or a list for the rest.

import (
	"fmt"
	"reflect"
)

// decodeNode reads "lan0" or {interface: lan0, instance-id: 7}.
func (s *SiteInterface) decodeNode(d decoder, n *node, path string) {
	s.setDefaults()
	if n.kind != nodeWord {
		d.section(n, reflect.ValueOf(s).Elem(), path)
		return
	}
	d.word(n, reflect.ValueOf(&s.Interface).Elem(), "", path)
}

// decodeNode reads "wan0" or {interface: wan0, hook: xdp}.
func (i *CoreInterface) decodeNode(d decoder, n *node, path string) {
	i.setDefaults()
	if n.kind != nodeWord {
		d.section(n, reflect.ValueOf(i).Elem(), path)
		return
	}
	d.word(n, reflect.ValueOf(&i.Interface).Elem(), "", path)
}

// decodeNode reads "192.0.2.1" or {address: 192.0.2.1, eid-prefixes: […]}.
func (m *MapServerRoute) decodeNode(d decoder, n *node, path string) {
	if n.kind != nodeWord {
		d.section(n, reflect.ValueOf(m).Elem(), path)
		return
	}
	d.word(n, reflect.ValueOf(&m.Address).Elem(), "", path)
}

// decodeNode reads the name of a set, or a list of locators.
func (r *RLOCs) decodeNode(d decoder, n *node, path string) {
	if n.kind != nodeWord {
		d.list(n, reflect.ValueOf(&r.Locators).Elem(), `required:"true"`, path)
		return
	}
	if !validName(n.text) {
		d.fail(path, fmt.Sprintf("%s: %q is not a name of a locator-set", label(path), n.text), "write the name of a set in locator-sets, or a list: [{interface: wan0}]")
		return
	}
	r.Name = n.text
}

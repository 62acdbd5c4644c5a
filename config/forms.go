// SPDX-License-Identifier: Apache-2.0

package config

// The values that may be written in a short form as well: a word for the usual
// case, a mapping or a list for the rest.

import (
	"fmt"
	"reflect"
	"slices"

	"loci/config/codec"
	"loci/config/source"
	"loci/lisp"
)

// DecodeNode reads "lan0" or {interface: lan0, instance-id: 7}.
func (s *SiteInterface) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	s.setDefaults()
	if n.Kind != source.Word {
		d.Section(n, reflect.ValueOf(s).Elem(), path)
		return
	}
	d.Word(n, reflect.ValueOf(&s.Interface).Elem(), "", path)
}

// DecodeNode reads "wan0" or {interface: wan0, hook: xdp}.
func (i *CoreInterface) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	i.setDefaults()
	if n.Kind != source.Word {
		d.Section(n, reflect.ValueOf(i).Elem(), path)
		return
	}
	d.Word(n, reflect.ValueOf(&i.Interface).Elem(), "", path)
}

// DecodeNode reads "192.0.2.1" or {address: 192.0.2.1, eid-prefixes: […]}.
func (m *MapServerRoute) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	if n.Kind != source.Word {
		d.Section(n, reflect.ValueOf(m).Elem(), path)
		return
	}
	d.Word(n, reflect.ValueOf(&m.Address).Elem(), "", path)
}

// DecodeNode reads "10.1.0.0/16" or {eid: 10.1.0.0/16, instance-id: 7}.
func (l *LocalEID) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	l.setDefaults()
	decodeEID(d, n, path, l, &l.EID)
}

// DecodeNode reads "10.1.0.0/16" or {eid: 10.1.0.0/16, instance-id: 7}.
func (p *EIDPrefix) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	decodeEID(d, n, path, p, &p.EID)
}

// DecodeNode reads "10.1.0.0/16" or {eid: 10.1.0.0/16, instance-id: 7}.
func (r *EIDRange) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	decodeEID(d, n, path, r, &r.EID)
}

// decodeEID reads an item of a list of EID-Prefixes: a section, or its eid alone.
func decodeEID(d *codec.Decoder, n *source.Node, path string, section any, eid *lisp.Prefix) {
	if n.Kind == source.Word {
		d.Word(n, reflect.ValueOf(eid).Elem(), "", path)
		return
	}
	d.Section(n, reflect.ValueOf(section).Elem(), path)
}

// PolicyEIDs are the EID-Prefixes of a policy, whose Instance-ID is the policy's.
type PolicyEIDs []lisp.Prefix

// DecodeNode reads a list of "10.1.0.0/16" or {eid: 10.1.0.0/16}.
func (l *PolicyEIDs) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	var list []policyEID
	d.List(n, reflect.ValueOf(&list).Elem(), `required:"true" max:"4096"`, path)
	*l = make(PolicyEIDs, 0, len(list))
	for _, item := range list {
		*l = append(*l, item.EID)
	}
}

type policyEID struct {
	EID lisp.Prefix `key:"eid" required:"true"`
}

// DecodeNode reads "10.1.0.0/16" or {eid: 10.1.0.0/16}.
func (p *policyEID) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	decodeEID(d, n, path, p, &p.EID)
}

// DecodeNode reads the name of a set, or a list of locators.
func (r *RLOCs) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	if n.Kind != source.Word {
		d.List(n, reflect.ValueOf(&r.Locators).Elem(), `required:"true"`, path)
		return
	}
	if !codec.ValidName(n.Text) {
		d.Fail(path, fmt.Sprintf("%s: %q is not a name of a locator-set", source.Label(path), n.Text), "write the name of a set in locator-sets, or a list, as in rlocs: [{interface: wan0}]")
		return
	}
	r.Name = n.Text
}

// EncodeNode writes the long form.
func (s SiteInterface) EncodeNode() *source.Node {
	return &source.Node{Kind: source.Mapping, Entries: []source.Entry{
		{Key: "interface", Value: codec.Encode(reflect.ValueOf(s.Interface))},
		{Key: "vlan", Value: codec.Encode(reflect.ValueOf(s.VLAN))},
		{Key: "instance-id", Value: codec.Encode(reflect.ValueOf(s.InstanceID))},
		{Key: "hook", Value: codec.Encode(reflect.ValueOf(s.Hook))},
		{Key: "forwarding", Value: codec.Encode(reflect.ValueOf(s.Forwarding))},
	}}
}

// EncodeNode writes the name of a set, or its locators.
func (r RLOCs) EncodeNode() *source.Node {
	switch {
	case r.Name != "":
		return codec.TextNode(r.Name)
	case len(r.Locators) > 0:
		return codec.Encode(reflect.ValueOf(r.Locators))
	}
	return nil
}

// EncodeNode leaves out what a locator of its kind does not have.
func (l Locator) EncodeNode() *source.Node {
	return without(codec.EncodeSection(reflect.ValueOf(l)), map[string]bool{"address-family": l.Interface == "", "port": l.Port == dataPort})
}

// without leaves keys out of a mapping.
func without(n *source.Node, left map[string]bool) *source.Node {
	n.Entries = slices.DeleteFunc(n.Entries, func(e source.Entry) bool { return left[e.Key] })
	return n
}

// EncodeNode names the key file in place of what it holds.
func (k Key) EncodeNode() *source.Node {
	if k.File != "" {
		k.Value = Secret{}
	}
	return codec.EncodeSection(reflect.ValueOf(k))
}

// SPDX-License-Identifier: Apache-2.0

package multipath

// The bits of a hop of an explicit locator path as configuration has them (RFC 8060 s.4.6). Nothing here reads a file.

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"loci/config/codec"
	"loci/config/source"
	"loci/lisp"
)

// LRSBits are the bits L, P and S of a hop.
type LRSBits lisp.HopBits

var lrsBits = []struct {
	word string
	bit  lisp.HopBits
}{{"lookup", lisp.HopLookup}, {"rloc-probe", lisp.HopProbe}, {"strict", lisp.HopStrict}}

// DecodeNode reads "strict", "lookup strict" or [lookup, strict].
func (b *LRSBits) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	var words []string
	switch {
	case n.Kind == source.Word:
		words = strings.Fields(n.Text)
	default:
		d.List(n, reflect.ValueOf(&words).Elem(), "", path)
	}
	for _, word := range words {
		i := slices.IndexFunc(lrsBits, func(l struct {
			word string
			bit  lisp.HopBits
		}) bool {
			return l.word == word
		})
		switch {
		case i < 0:
			d.Fail(path, fmt.Sprintf("lrs-bits: %q is not known", word), "want lookup, rloc-probe, strict, or several of them, as in lrs-bits: [rloc-probe, strict]")
			return
		case *b&LRSBits(lrsBits[i].bit) != 0:
			d.Fail(path, fmt.Sprintf("lrs-bits: %s stands here twice", word), "remove one of the two")
			return
		}
		*b |= LRSBits(lrsBits[i].bit)
	}
}

// EncodeNode is the list of the words, nil without one.
func (b LRSBits) EncodeNode() *source.Node {
	if b == 0 {
		return nil
	}
	list := &source.Node{Kind: source.List}
	for _, l := range lrsBits {
		if b&LRSBits(l.bit) != 0 {
			list.Items = append(list.Items, codec.TextNode(l.word))
		}
	}
	return list
}

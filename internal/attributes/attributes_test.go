// SPDX-License-Identifier: Apache-2.0

package attributes

import (
	"strings"
	"testing"

	"loci/lisp"
)

// TestCheckFinds: what a codec loses, changes beside, or lists for nothing is found.
func TestCheckFinds(t *testing.T) {
	whole := func(l lisp.Locator) (lisp.Locator, bool) { return l, true }
	if found := problems(List(t), nil, whole); found != nil {
		t.Errorf("a codec that carries everything: %q", found)
	}
	type codec = func(*lisp.Locator) bool
	changes := func(change func(*lisp.Locator)) codec {
		return func(l *lisp.Locator) bool { change(l); return true }
	}
	without := func(attribute, reason string) map[string]string { return map[string]string{attribute: reason} }
	same := changes(func(*lisp.Locator) {})
	loseHop := changes(func(l *lisp.Locator) { l.Behind = l.Behind[:len(l.Behind)/2/19*19] })
	beside := changes(func(l *lisp.Locator) { l.Local = l.Local || l.Probed })
	bound := changes(func(l *lisp.Locator) { l.Weight = min(l.Weight, 100) })
	loseLocal := changes(func(l *lisp.Locator) { l.Local = false })
	for name, test := range map[string]struct {
		codec   codec
		without map[string]string
		want    string
	}{
		"lost":             {changes(func(l *lisp.Locator) { l.Weight = 0 }), nil, "Weight of"},
		"lost by a bound":  {bound, nil, "Weight of"},
		"lost bit":         {changes(func(l *lisp.Locator) { l.Probed = false }), nil, "Probed of"},
		"lost port":        {changes(func(l *lisp.Locator) { l.RLOC = l.RLOC.WithPort(0) }), nil, "Port of"},
		"changed beside":   {beside, nil, "Probed of"},
		"not sent":         {func(l *lisp.Locator) bool { return l.Reachable }, nil, "Reachable of"},
		"carried though":   {same, without("Local", "there is no room"), "Local is listed"},
		"without a reason": {loseLocal, without("Local", ""), `"Local" is listed`},
		"not an attribute": {same, without("Colour", "there is no room"), `"Colour" is listed`},
		"lost hop":         {loseHop, nil, "Behind of"},
	} {
		carry := func(l lisp.Locator) (lisp.Locator, bool) {
			ok := test.codec(&l)
			return l, ok
		}
		found := problems(List(t), test.without, carry)
		if !strings.Contains(strings.Join(found, "\n"), test.want) {
			t.Errorf("%s: found %q, want %q", name, found, test.want)
		}
	}
}

// TestListHasBothEnds: every number is tried at both ends of its range, and every attribute by more than one value.
func TestListHasBothEnds(t *testing.T) {
	words := map[string]string{}
	for _, a := range List(t) {
		values := map[any]bool{}
		for _, l := range a.Locators {
			values[value(l, a.Name)] = true
		}
		if len(values) < 2 {
			t.Errorf("%s is tried with %v", a.Name, values)
		}
		words[a.Name] = a.Word()
	}
	for name, want := range map[string]string{
		"RLOC":              "rloc",
		"Priority":          "priority",
		"MulticastPriority": "multicast_priority",
	} {
		if words[name] != want {
			t.Errorf("%s is %q in C, want %q", name, words[name], want)
		}
	}
}

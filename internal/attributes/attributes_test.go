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
	for name, test := range map[string]struct {
		carry   func(*lisp.Locator) bool
		without map[string]string
		want    string
	}{
		"lost":             {func(l *lisp.Locator) bool { l.Weight = 0; return true }, nil, "Weight of"},
		"lost by a bound":  {func(l *lisp.Locator) bool { l.Weight = min(l.Weight, 100); return true }, nil, "Weight of"},
		"lost bit":         {func(l *lisp.Locator) bool { l.Probed = false; return true }, nil, "Probed of"},
		"lost port":        {func(l *lisp.Locator) bool { l.RLOC = l.RLOC.WithPort(0); return true }, nil, "Port of"},
		"changed beside":   {func(l *lisp.Locator) bool { l.Local = l.Local || l.Probed; return true }, nil, "Probed of"},
		"not sent":         {func(l *lisp.Locator) bool { return l.Reachable }, nil, "Reachable of"},
		"carried though":   {func(*lisp.Locator) bool { return true }, map[string]string{"Local": "there is no room"}, "Local is listed"},
		"without a reason": {func(l *lisp.Locator) bool { l.Local = false; return true }, map[string]string{"Local": ""}, `"Local" is listed`},
		"not an attribute": {func(*lisp.Locator) bool { return true }, map[string]string{"Colour": "there is no room"}, `"Colour" is listed`},
		"lost hop":         {func(l *lisp.Locator) bool { l.Behind = l.Behind[:len(l.Behind)/2/19*19]; return true }, nil, "Behind of"},
	} {
		found := problems(List(t), test.without, func(l lisp.Locator) (lisp.Locator, bool) { ok := test.carry(&l); return l, ok })
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
	for name, want := range map[string]string{"RLOC": "rloc", "Priority": "priority", "MulticastPriority": "multicast_priority"} {
		if words[name] != want {
			t.Errorf("%s is %q in C, want %q", name, words[name], want)
		}
	}
}

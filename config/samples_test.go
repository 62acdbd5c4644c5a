// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"loci/config/codec"
	"loci/config/source"
)

var (
	sampleOfHint = regexp.MustCompile(`^write it as in ([a-z0-9-]+): (.+)$`)
	fillIn       = strings.NewReplacer("ADDRESS", "192.0.2.9", "PREFIX", "10.9.0.0/16", "NAME", "name9", "KEY", strings.Repeat("0123456789abcdef", 4), "ID", strings.Repeat("0123456789abcdef", 2))
)

// documentWith is a configuration with a value at the path of a key, in the first item of each list on the way.
func documentWith(path, value string) (document, place string) {
	parts := strings.Split(path, ".")
	document = value
	for i := len(parts) - 1; i >= 0; i-- {
		name, isList := strings.CutSuffix(parts[i], "[]")
		if isList {
			document = "[" + document + "]"
		}
		document = strings.ReplaceAll(name, "NAME", "name9") + ": " + document
		if i > 0 {
			document = "{" + document + "}"
		}
	}
	document += "\n"
	for _, other := range []string{"interfaces: {core: [eth0], site: [eth1]}", "itr: {map-resolvers: [192.0.2.1]}"} {
		if name, _, _ := strings.Cut(other, ":"); name != parts[0] {
			document += other + "\n"
		}
	}
	return document, strings.NewReplacer("[]", "[0]", "NAME", "name9").Replace(path)
}

// problemsBelow are those of a configuration at a path and below.
func problemsBelow(t *testing.T, document, path string) (list []source.Problem) {
	t.Helper()
	_, err := Parse("sample", []byte(document))
	var problems *source.Problems
	if !errors.As(err, &problems) {
		return nil
	}
	for _, p := range problems.List {
		if strings.HasPrefix(p.Path, path) {
			list = append(list, p)
		}
	}
	return list
}

// TestHintsOfKindsAreAccepted: where a value is of another kind than the key's, the form that the hint shows is accepted in its place.
func TestHintsOfKindsAreAccepted(t *testing.T) {
	tried := 0
	for _, k := range modelKeys.All() {
		for _, wrong := range wrongValues(k) {
			document, path := documentWith(k.Path, wrong)
			for _, p := range problemsBelow(t, document, path) {
				sample := sampleOfHint.FindStringSubmatch(p.Hint)
				if sample == nil {
					if strings.Contains(p.Message, "stands here, not a ") {
						t.Errorf("%s: %s: the hint has no form: %s", k.Path, wrong, p.Hint)
					}
					continue
				}
				tried++
				right, path := documentWith(k.Path, fillIn.Replace(sample[2]))
				if left := problemsBelow(t, right, path); k.Key != "locator-sets" && sample[1] != k.Key || len(left) > 0 {
					t.Errorf("%s: %s: the hint %q gives %v", k.Path, wrong, p.Hint, left)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d hints were tried", tried)
	}
}

// wrongValues are of another kind than those of a key that holds a list or a section.
func wrongValues(k codec.Key) []string {
	at := k.Type
	if k.Key == "locator-sets" {
		return []string{"[]", "'12 34'"}
	}
	if at.Kind() == reflect.Pointer {
		at = at.Elem()
	}
	if section, _ := modelKeys.SectionOf(at); section == nil && at.Kind() != reflect.Slice {
		return nil
	}
	return []string{"{unheard: of}", "[[[unheard]]]", "'12 34'"}
}

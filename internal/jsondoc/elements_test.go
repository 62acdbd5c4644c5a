// SPDX-License-Identifier: Apache-2.0

package jsondoc

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func elementsOf(from io.Reader, most int) (list []string, err error) {
	for element, failed := range Elements(from, most) {
		if failed != nil {
			return list, failed
		}
		list = append(list, strings.TrimSpace(string(element)))
	}
	return list, nil
}

// TestElements whole and octet by octet.
func TestElements(t *testing.T) {
	long := `{"long": "` + strings.Repeat(`\"]},[{`, elementBuffer/3) + `"}`
	for text, want := range map[string][]string{
		"[]":                          nil,
		" [ \n ] ":                    nil,
		"[1]":                         {"1"},
		"[1, [2, 3] ,{\"a\":[4]}]":    {"1", "[2, 3]", `{"a":[4]}`},
		`["]", "\\", "\"],", ","]`:    {`"]"`, `"\\"`, `"\"],"`, `","`},
		"[" + long + "," + long + "]": {long, long},
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := elementsOf(from, 1<<20); err != nil || !slices.Equal(got, want) {
				t.Errorf("%.60s: %.200q, %v", text, got, err)
			}
		}
	}
}

func TestElementsThatFail(t *testing.T) {
	for _, text := range []string{"", " ", "[", "[1", "[1,", `["a]`, "[{]", "{}", "1", "[1 \\"} {
		if got, err := elementsOf(strings.NewReader(text), 1<<20); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
	if _, err := elementsOf(strings.NewReader("["+strings.Repeat("1", 3*elementBuffer)+"]"), elementBuffer); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an element that is too long: %v", err)
	}
	cut := errors.New("cut off")
	if _, err := elementsOf(io.MultiReader(strings.NewReader("[1,"), iotest.ErrReader(cut)), 10); !errors.Is(err, cut) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// FuzzElements compares with encoding/json.
func FuzzElements(f *testing.F) {
	f.Add(`[1, "a,]", {"b": [null]}, []]`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := elementsOf(strings.NewReader(text), 1<<20)
		var want []json.RawMessage
		if json.Unmarshal([]byte(text), &want) != nil || !strings.HasPrefix(strings.TrimSpace(text), "[") {
			return // what is no array may be found in the elements
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %q, %v, want %d elements", text, got, err, len(want))
		}
		for i := range want {
			if got[i] != string(want[i]) {
				t.Errorf("%q: element %d is %q, want %q", text, i, got[i], want[i])
			}
		}
	})
}

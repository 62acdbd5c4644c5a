// SPDX-License-Identifier: Apache-2.0

package config

// docs/configuration.md describes the model, all of it and nothing else: every key
// with its range, its words and its default as they are.

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"loci/config/codec"
	"loci/config/source"
)

const (
	documentFile = "../docs/configuration.md"
	relaysFile   = "../docs/relays.md"
)

// documentedKey is an item of a list.
type documentedKey struct{ typ, standard string }

var (
	documentHeading = regexp.MustCompile("^##+ .*$")
	documentPath    = regexp.MustCompile("`([^`]+)`")
	documentItem    = regexp.MustCompile("^- `([^`]+)` \\((.*?); (required|no default|default: (.*?))\\): .+$")
)

// documentLines returns the lines of the document, each item of a list on one.
func documentLines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(b), "\n") {
		if more, continues := strings.CutPrefix(line, "  "); continues && len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "- ") {
			lines[len(lines)-1] += " " + more
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}

// readDocument lists the keys of the lists. The sections that have the keys are named by the heading, or after it by a
// paragraph "For `a`, `b`:".
func readDocument(t *testing.T) map[string]documentedKey {
	t.Helper()
	found := map[string]documentedKey{}
	var sections []string
	var naming bool
	for _, line := range documentLines(t) {
		heading := documentHeading.MatchString(line)
		naming = naming && line != "" || strings.HasPrefix(line, "For `")
		if heading {
			sections = nil
		}
		if heading || naming {
			for _, match := range documentPath.FindAllStringSubmatch(line, -1) {
				sections = append(sections, match[1])
			}
		}
		if line == "## Top level" {
			sections = []string{""}
		}
		noteItem(t, documentItem.FindStringSubmatch(line), sections, found)
	}
	return found
}

func noteItem(t *testing.T, item, sections []string, found map[string]documentedKey) {
	t.Helper()
	if item == nil {
		return
	}
	standard := item[4]
	switch item[3] {
	case "required":
		standard = "required"
	case "no default":
		standard = "–"
	}
	for _, section := range sections {
		path := source.Join(section, item[1])
		if _, twice := found[path]; twice {
			t.Errorf("%s is described twice", path)
		}
		found[path] = documentedKey{item[2], standard}
	}
}

func TestDocumentDescribesTheModel(t *testing.T) {
	documented := readDocument(t)
	defaults := map[string]string{}
	collectDefaults(reflect.TypeFor[Config](), "", defaults)
	for _, k := range modelKeys.All() {
		d, ok := documented[k.Path]
		if !ok {
			t.Errorf("%s is not described", k.Path)
			continue
		}
		delete(documented, k.Path)
		checkItem(t, k, d, defaults[k.Path])
	}
	for path := range documented {
		t.Errorf("%s is described, but is no key", path)
	}
}

func checkItem(t *testing.T, k codec.Key, d documentedKey, standard string) {
	t.Helper()
	if low, high, ok := strings.Cut(k.Tag.Get("range"), ".."); ok && !strings.HasSuffix(d.typ, " "+low+" to "+high) {
		t.Errorf("%s: the type is %q, want %s to %s", k.Path, d.typ, low, high)
	}
	if limit := k.Tag.Get("max"); limit != "" && !strings.HasSuffix(d.typ, "at most "+limit) {
		t.Errorf("%s: the type is %q, want at most %s", k.Path, d.typ, limit)
	}
	for _, word := range strings.Split(k.Tag.Get("oneof"), ",") {
		if word != "" && !strings.Contains(d.typ, "`"+word+"`") {
			t.Errorf("%s: %s is not described", k.Path, word)
		}
	}
	if required := k.Tag.Get("required") != ""; required != (d.standard == "required") {
		t.Errorf("%s: the default is %q, required is %v", k.Path, d.standard, required)
	}
	if standard != "" && d.standard != "required" && d.standard != "see above" && d.standard != standard {
		t.Errorf("%s: the default is described as %q, it is %q", k.Path, d.standard, standard)
	}
}

// collectDefaults gives the words that keys have when they are left out.
func collectDefaults(t reflect.Type, path string, found map[string]string) {
	section := reflect.New(t)
	setDefaults(section.Interface())
	collectSection(section.Elem(), path, found)
}

func collectSection(v reflect.Value, path string, found map[string]string) {
	for _, f := range codec.FieldsOf(v.Type()) {
		at, value := source.Join(path, f.Key), v.FieldByIndex(f.Index)
		nested, suffix := modelKeys.SectionOf(f.Type)
		switch {
		case f.Type == reflect.TypeFor[Rate]():
			rate := value.Interface().(Rate)
			found[at] = rate.Rate.String() + ", burst " + codec.OneLine(codec.Encode(reflect.ValueOf(rate.Burst)))
		case nested != nil && suffix == "" && f.Type.Kind() == reflect.Struct:
			collectSection(value, at, found)
		case nested != nil:
			collectDefaults(nested, at+suffix, found)
		case value.Kind() != reflect.Slice:
			found[at] = codec.OneLine(codec.Encode(value))
		}
	}
}

// TestDocumentShowsRightConfigurations: what stands there as YAML is accepted.
func TestDocumentShowsRightConfigurations(t *testing.T) {
	for _, file := range []string{documentFile, relaysFile} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(b), "```yaml\n")[1:]
		if len(blocks) == 0 {
			t.Fatal("no configuration is shown in " + file)
		}
		for _, block := range blocks {
			text, _, _ := strings.Cut(block, "```")
			c, err := Parse("document", []byte(text))
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				continue
			}
			checkWarnings(t, c, text)
		}
	}
}

// TestTutorialWarnsOfNothing: who follows it is not told that he did something wrong.
func TestTutorialWarnsOfNothing(t *testing.T) {
	b, err := os.ReadFile("../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`(?s)<<'END'\n(.*?)\nEND\n`).FindAllSubmatch(b, -1)
	if len(files) < 2 {
		t.Fatalf("%d configurations", len(files))
	}
	for _, file := range files {
		if c, err := Parse("tutorial", file[1]); err != nil || len(c.Warnings) > 0 {
			t.Errorf("%v, %v\n%s", err, c, file[1])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// This file makes rfc-coverage.md: each MUST and SHOULD of RFC 9300, 9301, 9302, 6832 and 8060 s.4.6 (rfc-clauses.yaml) beside the tests
// whose doc comments say that they show it. It reads the whole tree's tests, and runs none of them.

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

//go:generate go test -run TestEveryClauseHasItsTest -update .

const (
	clausesFile  = "rfc-clauses.yaml"
	coverageFile = "rfc-coverage.md"
	// mustCoveredPercent is how many of the MUSTs for our roles tests must show.
	mustCoveredPercent = 95
)

// clause is one MUST or SHOULD: what it demands, and why no test shows it where that is so.
type clause struct {
	name      string // "RFC 9301 s.5.3 (2)"
	must      bool
	words     string
	elsewhere string
	open      string
	tests     []string // "control.TestRetransmission", sorted
}

// Each clause is shown by a test, or it says why not; no test names a clause that is not there; most MUSTs are shown.
func TestEveryClauseHasItsTest(t *testing.T) {
	clauses := readClauses(t)
	attachTests(t, clauses)
	for _, c := range clauses {
		c.check(t)
	}
	shown, counted := countMusts(clauses)
	if shown*100 < counted*mustCoveredPercent {
		t.Errorf("tests show %d of the %d MUSTs for our roles, which is less than %d %%", shown, counted, mustCoveredPercent)
	}
	document := coverageDocument(clauses)
	if *update {
		if err := os.WriteFile(coverageFile, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, coverageFile) != document {
		t.Errorf("%s is not what the tests say: run `make generate`", coverageFile)
	}
}

func (c *clause) check(t *testing.T) {
	t.Helper()
	switch {
	case c.elsewhere != "" && c.open != "":
		t.Errorf("%s: both elsewhere and open", c.name)
	case c.elsewhere == "" && c.open == "" && len(c.tests) == 0:
		t.Errorf("%s: no test names it, and %s does not say why: %s", c.name, clausesFile, c.words)
	case c.open != "" && len(c.tests) != 0:
		t.Errorf("%s is said to be open, but %s names it", c.name, c.tests[0])
	}
}

// readClauses returns the clauses in the order of the file.
func readClauses(t *testing.T) []*clause {
	t.Helper()
	var documents yaml.MapSlice
	if err := yaml.UnmarshalWithOptions([]byte(read(t, clausesFile)), &documents, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	var clauses []*clause
	for _, document := range documents {
		for _, section := range document.Value.(yaml.MapSlice) {
			for i, entry := range section.Value.([]any) {
				name := fmt.Sprintf("%v s.%v (%d)", document.Key, section.Key, i+1)
				clauses = append(clauses, readClause(t, name, entry.(yaml.MapSlice)))
			}
		}
	}
	return clauses
}

func readClause(t *testing.T, name string, entry yaml.MapSlice) *clause {
	t.Helper()
	c := &clause{name: name}
	for _, field := range entry {
		value := fmt.Sprint(field.Value)
		switch field.Key {
		case "MUST":
			c.must, c.words = true, value
		case "SHOULD":
			c.words = value
		case "elsewhere":
			c.elsewhere = value
		case "open":
			c.open = value
		default:
			t.Errorf("%s: unknown key %v", name, field.Key)
		}
	}
	return c
}

// reference finds the names of clauses in a comment, also where a list shares one "RFC 9301 s.5.3": "(2), (4)".
var reference = regexp.MustCompile(`(RFC \d{4})\s+s\.([\d.]*\d)\s+((?:\(\d+\)(?:,\s+|\s+and\s+)?)+)`)

var ordinal = regexp.MustCompile(`\(\d+\)`)

// attachTests gives each clause the tests whose doc comments name it.
func attachTests(t *testing.T, clauses []*clause) {
	t.Helper()
	byName := map[string]*clause{}
	for _, c := range clauses {
		byName[c.name] = c
	}
	for test, comment := range testComments(t) {
		for _, match := range reference.FindAllStringSubmatch(comment, -1) {
			for _, number := range ordinal.FindAllString(match[3], -1) {
				name := fmt.Sprintf("%s s.%s %s", match[1], match[2], number)
				c := byName[name]
				if c == nil {
					t.Errorf("%s names %s, which %s does not have", test, name, clausesFile)
					continue
				}
				c.tests = append(c.tests, test)
			}
		}
	}
	for _, c := range clauses {
		slices.Sort(c.tests)
		c.tests = slices.Compact(c.tests)
	}
}

// testComments returns the doc comment of every test of the tree, by its name.
func testComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	forEachTest(t, func(name string, function *ast.FuncDecl) {
		comments[name] = strings.Join(strings.Fields(function.Doc.Text()), " ")
	})
	return comments
}

// forEachTest visits the tests and fuzz targets of the tree; a name is "directory.TestName".
func forEachTest(t *testing.T, visit func(name string, function *ast.FuncDecl)) {
	t.Helper()
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		directory := path.Dir(strings.TrimPrefix(filepath.ToSlash(file), "../"))
		for _, declaration := range parsed.Decls {
			if function, isFunction := declaration.(*ast.FuncDecl); isFunction && isTest(function.Name.Name) {
				visit(directory+"."+function.Name.Name, function)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
}

func countMusts(clauses []*clause) (shown, counted int) {
	for _, c := range clauses {
		if !c.must || c.elsewhere != "" {
			continue
		}
		counted++
		if len(c.tests) != 0 {
			shown++
		}
	}
	return shown, counted
}

func coverageDocument(clauses []*clause) string {
	var b strings.Builder
	shown, counted := countMusts(clauses)
	b.WriteString("# Each MUST and SHOULD, and the test that shows it\n\n")
	b.WriteString(wrap("", fmt.Sprintf("Generated from the tests (%s) and the list of clauses ([%s](%s)): do not edit, run %s. "+
		"Of the %d MUSTs that bind Loci's roles, tests show %d (%d %%). The number of a clause is its place among the MUSTs and SHOULDs "+
		"of its section. The words are shortened.",
		"`Shows RFC …` in their comments", clausesFile, clausesFile, "`make generate`", counted, shown, shown*100/counted)))
	heading := ""
	for _, c := range clauses {
		document, section, _ := strings.Cut(c.name, " s.")
		if document != heading {
			heading = document
			fmt.Fprintf(&b, "\n## %s\n\n", document)
		}
		b.WriteString(wrap("- ", fmt.Sprintf("**%s %s**: %s. %s.", section, c.level(), strings.TrimSuffix(c.words, "."), c.evidence())))
	}
	return b.String()
}

func (c *clause) level() string {
	if c.must {
		return "MUST"
	}
	return "SHOULD"
}

func (c *clause) evidence() string {
	switch {
	case len(c.tests) != 0:
		return "Shown by `" + strings.Join(c.tests, "`, `") + "`"
	case c.elsewhere != "":
		return "Binds " + c.elsewhere
	}
	return "**Open**: " + c.open
}

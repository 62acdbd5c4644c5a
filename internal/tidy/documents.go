// SPDX-License-Identifier: Apache-2.0

// The documents: links that lead somewhere, commands that exist, a code map that is complete, a reason for every dependency,
// and nothing about the machine they were written on.

package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxArchitectureLines keeps ARCHITECTURE.md readable in one sitting. Its lines are 100 columns at most (width.go).
const maxArchitectureLines = 400

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedItem    = regexp.MustCompile("^- `([^`\\s]+/[^`\\s]+)`: +\\S")
	heading      = regexp.MustCompile(`^#+ +(.+)$`)
	notInAnchor  = regexp.MustCompile("[^a-z0-9 _-]")
	makeCommand  = regexp.MustCompile("(?:^|`)(?:sudo )?make ([a-z]+)")
	variable     = regexp.MustCompile("`(LOCI_[A-Z_]+)")
	variableText = regexp.MustCompile("^[\"`](LOCI_[A-Z_]+)")
	makeTarget   = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// documents returns the Markdown files.
func (t *tree) documents() []*file {
	return slices.DeleteFunc(slices.Clone(t.files), func(f *file) bool {
		return path.Ext(f.path) != ".md" || strings.Contains(f.path, "testdata/")
	})
}

// eachLine calls do with every line of a file and its number from 1.
func (f *file) eachLine(do func(number int, line string)) {
	number := 0
	for line := range bytes.Lines(f.content) {
		number++
		do(number, strings.TrimRight(string(line), "\n"))
	}
}

func checkLinks(t *tree) []finding {
	var all []finding
	for _, f := range t.documents() {
		f.eachLine(func(number int, line string) {
			for _, match := range markdownLink.FindAllStringSubmatch(line, -1) {
				if problem := t.followLink(f, match[1]); problem != "" {
					all = append(all, finding{f.path, number, problem})
				}
			}
		})
	}
	return all
}

// followLink says what is wrong with a link, "" for nothing. Links to other hosts are not followed.
func (t *tree) followLink(f *file, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	name := f.path
	if target != "" {
		name = path.Join(f.directory(), target)
	}
	found := t.file(name)
	switch {
	case found == nil && !t.isDirectory(name):
		return fmt.Sprintf("link to %s: there is no %s", link, name)
	case found != nil && anchor != "" && !slices.Contains(found.anchors(), anchor):
		return fmt.Sprintf("link to %s: %s has no such heading", link, name)
	}
	return ""
}

func (t *tree) isDirectory(name string) bool {
	return fs.ValidPath(name) && slices.ContainsFunc(t.files, func(f *file) bool { return strings.HasPrefix(f.path, name+"/") })
}

// anchors returns what the headings of a document are linked by.
func (f *file) anchors() []string {
	var all []string
	f.eachLine(func(_ int, line string) {
		if match := heading.FindStringSubmatch(line); match != nil {
			text := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
			all = append(all, strings.ReplaceAll(text, " ", "-"))
		}
	})
	return all
}

func checkTargets(t *tree) []finding {
	makefile := t.file("Makefile")
	if makefile == nil {
		return nil
	}
	var targets []string
	for _, match := range makeTarget.FindAllSubmatch(makefile.content, -1) {
		targets = append(targets, string(match[1]))
	}
	var all []finding
	for _, f := range t.documents() {
		f.eachLine(func(number int, line string) {
			for _, match := range makeCommand.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(targets, match[1]) {
					all = append(all, finding{f.path, number, "the Makefile has no target " + match[1]})
				}
			}
		})
	}
	return all
}

// checkVariables compares the variables of the environment that tests name with the list of them.
func checkVariables(t *tree) (all []finding) {
	const name = "CONTRIBUTING.md"
	list := t.file(name)
	if list == nil {
		return nil
	}
	listed, read := map[string]int{}, map[string]bool{}
	list.eachLine(func(number int, line string) {
		for _, match := range variable.FindAllStringSubmatch(line, -1) {
			listed[match[1]] = number
		}
	})
	for _, f := range t.files {
		if f.syntax == nil || !f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok {
				return true
			}
			if match := variableText.FindStringSubmatch(literal.Value); match != nil {
				read[match[1]] = true
				if listed[match[1]] == 0 {
					all = append(all, t.at(f, node, "%s does not say what %s is", name, match[1]))
				}
			}
			return true
		})
	}
	for of, number := range listed {
		if !read[of] {
			all = append(all, finding{name, number, "no test reads " + of})
		}
	}
	return all
}

func checkArchitecture(t *tree) []finding {
	const name = "ARCHITECTURE.md"
	f := t.file(name)
	if f == nil {
		return []finding{{path: name, message: "is missing"}}
	}
	var all []finding
	if lines := bytes.Count(f.content, []byte("\n")); lines > maxArchitectureLines {
		all = append(all, finding{name, 0, fmt.Sprintf("%d lines, the wall is %d", lines, maxArchitectureLines)})
	}
	for _, directory := range t.directories() {
		if !bytes.Contains(f.content, []byte("`"+directory+"`")) && !bytes.Contains(f.content, []byte("`"+directory+"/`")) {
			all = append(all, finding{path: name, message: "the code map does not list `" + directory + "`"})
		}
	}
	return all
}

// itemNames returns what stands in backquotes and has a slash at the beginning of a document's items, with the line, when the item then says
// something: "- `name`: why".
func (f *file) itemNames() map[string]int {
	names := map[string]int{}
	f.eachLine(func(number int, line string) {
		if match := namedItem.FindStringSubmatch(line); match != nil {
			names[match[1]] = number
		}
	})
	return names
}

// checkDependencies holds go.mod against docs/dependencies.md: what the code imports, or go.mod names as a tool, has an
// item there, and an item stands for something in use.
func checkDependencies(t *tree) []finding {
	const name = "docs/dependencies.md"
	modules := t.file("go.mod")
	if modules == nil {
		return nil
	}
	f := t.file(name)
	if f == nil {
		return []finding{{path: name, message: "is missing"}}
	}
	used := t.usedModules(string(modules.content))
	items := f.itemNames()
	var all []finding
	for module, user := range used {
		if items[module] == 0 {
			all = append(all, finding{path: name, message: "gives no reason for " + module + ", which " + user + " uses"})
		}
	}
	for item, line := range items {
		if used[item] == "" {
			all = append(all, finding{name, line, item + " is not in use"})
		}
	}
	return all
}

var (
	requireLine = regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.]+\.[a-z]+/[^\s]+|[a-z0-9.]+\.[a-z]+/[^\s]+) v[0-9]`)
	toolLine    = regexp.MustCompile(`(?m)^(?:tool |\t)([a-z0-9.]+\.[a-z]+/[^\s]+)$`)
)

// usedModules returns the modules that Go files import or that are tools, each with one user.
func (t *tree) usedModules(goMod string) map[string]string {
	var modules []string
	for _, match := range requireLine.FindAllStringSubmatch(goMod, -1) {
		modules = append(modules, match[1])
	}
	used := map[string]string{}
	note := func(imported, user string) {
		best := ""
		for _, candidate := range modules {
			if inside(imported, candidate) && len(candidate) > len(best) {
				best = candidate
			}
		}
		if best != "" && (used[best] == "" || used[best] > user) {
			used[best] = user
		}
	}
	for _, match := range toolLine.FindAllStringSubmatch(goMod, -1) {
		note(match[1], "go.mod as a tool")
	}
	for _, f := range t.files {
		if f.syntax == nil {
			continue
		}
		for imported := range f.imports() {
			note(imported, f.path)
		}
	}
	return used
}

// foreign are traces of the machine or the service where something was made. This package names them, so it is excused.
var foreign = []struct {
	words   []string // one of them is in every match: looking for them first is many times as fast
	pattern *regexp.Regexp
	what    string
}{
	{[]string{"/work/", "/root/", "/home/", "/Users/"},
		regexp.MustCompile(`(^|[^\w.])/(work|root|home/\w+|Users/\w+)/`), "a path of one machine"},
	{[]string{"../shared/"}, regexp.MustCompile(`\.\./shared/`), "a path outside the repository"},
	{[]string{"registry", "proxy", "mirror", "artifactory", "nexus"},
		regexp.MustCompile(`\b(registry|proxy|mirror|artifactory|nexus)[\w-]*\.[\w-]+\.[a-z]{2,}\b`), "a registry's host"},
	{[]string{"GOPROXY=", "GOSUMDB=", "GONOSUMDB="}, regexp.MustCompile(`\bGO(PROXY|SUMDB|NOSUMDB)=\S`), "a registry's setting"},
}

func checkForeign(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		if !f.isText() || inside(f.directory(), "internal/tidy") || strings.HasPrefix(f.path, "LICENSE") {
			continue
		}
		f.eachLine(func(number int, line string) {
			for _, trace := range foreign {
				if !slices.ContainsFunc(trace.words, func(word string) bool { return strings.Contains(line, word) }) {
					continue
				}
				if match := trace.pattern.FindString(line); match != "" {
					all = append(all, finding{f.path, number, "names " + trace.what + ": " + match})
				}
			}
		})
	}
	return all
}

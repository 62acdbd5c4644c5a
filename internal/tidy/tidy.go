// SPDX-License-Identifier: Apache-2.0

// Package tidy enforces the shape of the repository: who may import whom, what the pure packages may not call, how large
// a function may grow, what must be documented. Its test reads the whole source tree and names every offence with file and
// line; CONTRIBUTING.md says why each rule is there. It reads and never writes, and it needs no network.
package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// module is the module path that internal import paths begin with.
const module = "loci"

// finding is one offence against a rule.
type finding struct {
	path    string
	line    int // 0 when the file as a whole offends
	message string
}

func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.message
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message)
}

// rule looks at a tree and returns what offends.
type rule struct {
	name  string
	check func(*tree) []finding
}

var rules = []rule{
	{"imports follow the arrows of the design", checkArrows},
	{"unsafe stays in dataplane/kernel", checkUnsafe},
	{"pure packages touch neither clock, nor files, nor sockets, nor goroutines", checkPure},
	{"pure packages keep no state in variables", checkPackageVariables},
	{"functions and files stay below the walls of size", checkSize},
	{"packages stay below the walls of size", checkPackages},
	{"types do one job each", checkMethods},
	{"a mutex is locked by its own type only", checkLocks},
	{"packages say who has their locks", checkLockDocuments},
	{"C functions and files stay below the walls of size", checkSizeC},
	{"names say something", checkNames},
	{"names and text have the words of the field", checkWords},
	{"JSON has one spelling, and leaves nothing out", checkJSON},
	{"files open with their licence and what they are", checkOpenings},
	{"exported symbols are documented", checkExported},
	{"links in documents lead somewhere", checkLinks},
	{"documents name targets that the Makefile has", checkTargets},
	{"CONTRIBUTING.md lists the variables that tests read", checkVariables},
	{"lines of documents fit into a window", checkWidth},
	{"ARCHITECTURE.md is short and lists every package", checkArchitecture},
	{"every dependency has its reason", checkDependencies},
	{"nothing names the machine it was made on", checkForeign},
}

// tree is the source tree, Go files parsed.
type tree struct {
	set   *token.FileSet
	files []*file
}

// file is one file of the tree. Its path is relative to the root, with slashes.
type file struct {
	path    string
	content []byte
	syntax  *ast.File // nil when it is no Go file
}

// load reads a tree. What holds no source (.git, which is a file in a linked worktree; bin) is left out.
func load(root fs.FS) (*tree, error) {
	t := &tree{set: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || name == ".git":
			return nil
		}
		return t.add(root, name)
	})
	return t, err
}

func (t *tree) add(root fs.FS, name string) error {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	f := &file{path: name, content: content}
	if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
		f.syntax, err = parser.ParseFile(t.set, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
	}
	t.files = append(t.files, f)
	return nil
}

// file returns the file of that path, or nil.
func (t *tree) file(name string) *file {
	for _, f := range t.files {
		if f.path == name {
			return f
		}
	}
	return nil
}

// source yields the Go files that are neither tests nor generated.
func (t *tree) source() []*file {
	return slices.DeleteFunc(slices.Clone(t.files), func(f *file) bool {
		return f.syntax == nil || f.isTest() || ast.IsGenerated(f.syntax)
	})
}

// directories returns the directories that hold Go files which are no tests, sorted.
func (t *tree) directories() []string {
	var all []string
	for _, f := range t.files {
		if f.syntax != nil && !f.isTest() {
			all = append(all, f.directory())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (t *tree) at(f *file, node ast.Node, format string, args ...any) finding {
	return finding{f.path, t.set.Position(node.Pos()).Line, fmt.Sprintf(format, args...)}
}

func (f *file) isTest() bool      { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) directory() string { return path.Dir(f.path) }
func (f *file) isText() bool      { return !bytes.Contains(f.content, []byte{0}) }

// imports returns the import paths of a Go file with their places.
func (f *file) imports() map[string]ast.Node {
	all := map[string]ast.Node{}
	for _, spec := range f.syntax.Imports {
		all[strings.Trim(spec.Path.Value, `"`)] = spec
	}
	return all
}

// inside reports whether a directory is that package or below it.
func inside(directory, root string) bool {
	return directory == root || strings.HasPrefix(directory, root+"/")
}

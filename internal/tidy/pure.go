// SPDX-License-Identifier: Apache-2.0

// The pure packages: values, messages, protocol and packet functions take time, randomness and bytes as arguments, so that a
// test or the simulator can drive them through anything. Identifiers are resolved by go/types over hollow imports: enough to
// know which package or variable a name means, shadowing included, without compiling dependencies.

package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
)

var purePackages = []string{"lisp", "wire", "control", "forward"}

func isPure(directory string) bool {
	return slices.ContainsFunc(purePackages, func(root string) bool { return inside(directory, root) })
}

// pureImports are what a pure package may import besides the packages of its arrows; a trailing slash means all below.
// A set of names limits the import to these.
var pureImports = map[string][]string{
	"bytes": nil, "cmp": nil, "encoding": nil, "encoding/": nil, "errors": nil, "fmt": nil, "hash": nil, "hash/": nil, "iter": nil,
	"maps": nil, "math": nil, "math/bits": nil, "net/netip": nil, "slices": nil, "sort": nil, "strconv": nil, "strings": nil, "unicode": nil,
	"unicode/": nil, "container/": nil, "crypto/": nil, "math/big": nil,
	"io":      {"EOF", "ErrUnexpectedEOF", "Writer", "Reader"},
	"net":     {"ParseMAC", "HardwareAddr"},
	"context": {}, "crypto/rand": {}, "hash/maphash": {"Bytes", "Comparable", "Seed", "String"},
	"time": {"Time", "Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "Unix", "UnixMilli", "UnixMicro", "Date",
		"UTC", "RFC3339", "RFC3339Nano", "ParseDuration", "Month"},
	"reflect":                  {"DeepEqual"},
	"github.com/gaissmai/bart": nil,
}

// allowedNames returns the names a pure package may use of an import, nil for all, and whether it may import it at all.
func allowedNames(imported string) ([]string, bool) {
	if names, found := pureImports[imported]; found {
		return names, names == nil || len(names) > 0
	}
	for directory := path.Dir(imported); directory != "."; directory = path.Dir(directory) {
		if names, found := pureImports[directory+"/"]; found {
			return names, true
		}
	}
	return nil, strings.HasPrefix(imported, module+"/")
}

func checkPure(t *tree) []finding {
	var all []finding
	for directory, files := range t.pureFiles() {
		uses := t.resolve(directory, files)
		for _, f := range files {
			all = append(all, t.impureImports(f)...)
			all = append(all, t.impurities(f, uses)...)
		}
	}
	return all
}

func (t *tree) impureImports(f *file) []finding {
	var all []finding
	for imported, place := range f.imports() {
		if _, allowed := allowedNames(imported); !allowed {
			all = append(all, t.at(f, place, "pure package %s must not import %s", f.directory(), imported))
		}
	}
	return all
}

// impurities finds goroutines, channels and forbidden names of allowed imports.
func (t *tree) impurities(f *file, uses map[*ast.Ident]types.Object) []finding {
	var all []finding
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			all = append(all, t.at(f, node, "pure package starts a goroutine"))
		case *ast.ChanType, *ast.SelectStmt:
			all = append(all, t.at(f, node, "pure package uses a channel"))
		case *ast.SelectorExpr:
			if message := forbiddenName(node, uses); message != "" {
				all = append(all, t.at(f, node, "%s", message))
			}
		}
		return true
	})
	return all
}

func forbiddenName(selector *ast.SelectorExpr, uses map[*ast.Ident]types.Object) string {
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	imported, ok := uses[qualifier].(*types.PkgName)
	if !ok {
		return ""
	}
	names, allowed := allowedNames(imported.Imported().Path())
	if !allowed || names == nil || slices.Contains(names, selector.Sel.Name) {
		return ""
	}
	return "pure package must not use " + imported.Imported().Path() + "." + selector.Sel.Name + ": what it gives is an argument here"
}

// pureFiles groups the source of pure packages by directory.
func (t *tree) pureFiles() map[string][]*file {
	all := map[string][]*file{}
	for _, f := range t.source() {
		if isPure(f.directory()) {
			all[f.directory()] = append(all[f.directory()], f)
		}
	}
	return all
}

// checkPackageVariables demands that a variable of a pure package is a table or an error: it has a value from the start, and
// nothing in the package assigns to it, takes its address or empties it. Exported ones must be errors, as importers could
// assign to anything else.
func checkPackageVariables(t *tree) []finding {
	var all []finding
	for directory, files := range t.pureFiles() {
		uses := t.resolve(directory, files)
		for _, f := range files {
			all = append(all, t.declaredVariables(f)...)
			all = append(all, t.mutations(f, uses)...)
		}
	}
	return all
}

func (t *tree) declaredVariables(f *file) []finding {
	var all []finding
	for _, spec := range topLevelVariables(f) {
		for _, name := range spec.Names {
			if name.Name != "_" && len(spec.Values) == 0 {
				all = append(all, t.at(f, name, "variable %s of a pure package has no value from the start, so it must be state", name.Name))
			}
			if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
				all = append(all, t.at(f, name, "exported variable %s of a pure package can be changed by anyone: make it a function or a constant", name.Name))
			}
		}
	}
	return all
}

func topLevelVariables(f *file) []*ast.ValueSpec {
	var all []*ast.ValueSpec
	for _, declaration := range f.syntax.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			all = append(all, spec.(*ast.ValueSpec))
		}
	}
	return all
}

func (t *tree) mutations(f *file, uses map[*ast.Ident]types.Object) []finding {
	var all []finding
	report := func(expressions ...ast.Expr) {
		for _, expression := range expressions {
			variable, ok := uses[rootOf(expression)].(*types.Var)
			if ok && variable.Parent() == variable.Pkg().Scope() {
				all = append(all, t.at(f, expression, "package variable %s is changed: pure packages keep no state in variables", variable.Name()))
			}
		}
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			report(node.Lhs...)
		case *ast.IncDecStmt:
			report(node.X)
		case *ast.RangeStmt:
			report(node.Key, node.Value)
		case *ast.UnaryExpr:
			if node.Op == token.AND {
				report(node.X)
			}
		case *ast.CallExpr:
			if called, ok := node.Fun.(*ast.Ident); ok && len(node.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, called.Name) {
				report(node.Args[0])
			}
		}
		return true
	})
	return all
}

// rootOf returns the variable that an expression is a part of, or nil.
func rootOf(expression ast.Expr) *ast.Ident {
	for {
		switch e := expression.(type) {
		case *ast.Ident:
			return e
		case *ast.IndexExpr:
			expression = e.X
		case *ast.SelectorExpr:
			expression = e.X
		case *ast.StarExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		case *ast.SliceExpr:
			expression = e.X
		default:
			return nil
		}
	}
}

// resolve says what each identifier of a package means. Imports are hollow, so whatever comes out of them stays unknown.
func (t *tree) resolve(directory string, files []*file) map[*ast.Ident]types.Object {
	syntax := make([]*ast.File, len(files))
	for i, f := range files {
		syntax[i] = f.syntax
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	configuration := types.Config{Importer: hollow{}, Error: func(error) {}}
	_, _ = configuration.Check(module+"/"+directory, t.set, syntax, &info) // errors are expected: imports are hollow
	return info.Uses
}

// hollow imports every package as an empty one of the likely name.
type hollow struct{}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Import makes an empty package of that path.
func (hollow) Import(imported string) (*types.Package, error) {
	name := path.Base(imported)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(imported))
	}
	empty := types.NewPackage(imported, name)
	empty.MarkComplete()
	return empty, nil
}

// SPDX-License-Identifier: Apache-2.0

// The wall of a type. A method by another name counts as one: those of types of its package that embed a pointer to
// it, and functions of its package that take it first and touch its unexported fields. Functions that only call its
// methods do not count. A type that embeds a value of it has it for a part, and a state of its own.

package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const maxMethods = 40

// manyMethods are types without a wall: a facade, and the words in which conformance tests are written.
var manyMethods = map[string]bool{"control.Node": true, "dataplane/conformance.bench": true}

// kind is what a package has of one of its types.
type kind struct {
	methods  int
	fields   map[string]bool // unexported ones
	embedded []string        // types of the package that it has a pointer to
}

func checkMethods(t *tree) []finding {
	var all []finding
	for directory, files := range t.sourceByDirectory() {
		kinds := kindsOf(files)
		for name := range kinds {
			if where := directory + "." + name; !manyMethods[where] {
				all = append(all, judgeMethods(where, workOn(name, kinds, files))...)
			}
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return cmp.Compare(a.path, b.path) })
	return all
}

// cutLast separates a package from its type.
func cutLast(where string) (directory, name string) {
	i := strings.LastIndexByte(where, '.')
	return where[:i], where[i+1:]
}

func judgeMethods(where string, count int) []finding {
	if count <= maxMethods {
		return nil
	}
	message := fmt.Sprintf("%d methods and functions work on its state, the wall is %d: it does several jobs", count, maxMethods)
	return []finding{{path: where, message: message}}
}

func (t *tree) sourceByDirectory() map[string][]*file {
	all := map[string][]*file{}
	for _, f := range t.source() {
		all[f.directory()] = append(all[f.directory()], f)
	}
	return all
}

// kindsOf finds the types of a package and how many methods each has.
func kindsOf(files []*file) map[string]*kind {
	kinds := map[string]*kind{}
	of := func(name string) *kind {
		if kinds[name] == nil {
			kinds[name] = &kind{fields: map[string]bool{}}
		}
		return kinds[name]
	}
	for _, f := range files {
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Recv != nil {
					of(typeName(node.Recv.List[0].Type)).methods++
				}
				return false
			case *ast.TypeSpec:
				of(node.Name.Name).addFields(node.Type)
			}
			return true
		})
	}
	return kinds
}

// addFields takes the fields of a struct; other types have none.
func (k *kind) addFields(expression ast.Expr) {
	structure, ok := expression.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range structure.Fields.List {
		if pointer, ok := field.Type.(*ast.StarExpr); ok && len(field.Names) == 0 {
			k.embedded = append(k.embedded, typeName(pointer.X))
		}
		for _, name := range field.Names {
			k.fields[name.Name] = !name.IsExported()
		}
	}
}

// workOn counts what works on the state of a type.
func workOn(name string, kinds map[string]*kind, files []*file) int {
	count := kinds[name].methods
	for other := range kinds {
		if other != name && embeds(kinds, other, name, nil) {
			count += kinds[other].methods
		}
	}
	for _, f := range files {
		for _, declaration := range f.syntax.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && touches(function, name, kinds) {
				count++
			}
		}
	}
	return count
}

// embeds says whether a type of the package shares the state of another one, directly or not.
func embeds(kinds map[string]*kind, outer, inner string, path []string) bool {
	k := kinds[outer]
	if k == nil || slices.Contains(path, outer) {
		return false
	}
	return slices.ContainsFunc(k.embedded, func(name string) bool {
		return name == inner || embeds(kinds, name, inner, append(path, outer))
	})
}

// touches says whether a function takes a value of the type first and names one of its unexported fields.
func touches(function *ast.FuncDecl, name string, kinds map[string]*kind) bool {
	parameters := function.Type.Params.List
	if function.Recv != nil || function.Body == nil || len(parameters) == 0 || len(parameters[0].Names) == 0 ||
		typeName(parameters[0].Type) != name {
		return false
	}
	value, found := parameters[0].Names[0].Name, false
	ast.Inspect(function.Body, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return !found
		}
		of, ok := selector.X.(*ast.Ident)
		found = found || ok && of.Name == value && kinds[name].fields[selector.Sel.Name]
		return !found
	})
	return found
}

// typeName is the name of a type of the package, without pointer and type parameters; empty for any other type.
func typeName(expression ast.Expr) string {
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

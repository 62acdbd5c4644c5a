// SPDX-License-Identifier: Apache-2.0

// The walls of packages and types. A package is a subject that fits in a head, and a type with many methods does several
// jobs. Tests and generated files do not count.

package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"slices"
)

// The walls of a package and of a type.
const (
	maxPackageFiles = 25
	maxPackageLines = 4000
	maxMethods      = 40
)

// manyFiles are packages without a wall: one file a message, one type a facade.
var (
	manyFiles   = map[string]bool{"wire": true}
	manyMethods = map[string]bool{"control.Node": true}
)

func checkPackages(t *tree) []finding {
	files, lines, methods := map[string]int{}, map[string]int{}, map[string]int{}
	for _, f := range t.source() {
		files[f.directory()]++
		lines[f.directory()] += bytes.Count(f.content, []byte("\n"))
		for _, declaration := range f.syntax.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv != nil {
				methods[f.directory()+"."+receiverName(function)]++
			}
		}
	}
	var all []finding
	for directory := range files {
		if files[directory] > maxPackageFiles && !manyFiles[directory] {
			all = append(all, finding{path: directory, message: fmt.Sprintf("%d files, the wall is %d: split it by subject", files[directory], maxPackageFiles)})
		}
		if lines[directory] > maxPackageLines && !manyFiles[directory] {
			all = append(all, finding{path: directory, message: fmt.Sprintf("%d lines, the wall is %d: split it by subject", lines[directory], maxPackageLines)})
		}
	}
	for name, count := range methods {
		if count > maxMethods && !manyMethods[name] {
			all = append(all, finding{path: name, message: fmt.Sprintf("%d methods, the wall is %d: it does several jobs", count, maxMethods)})
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return cmp.Compare(a.path, b.path) })
	return all
}

// receiverName is the type of a method, without pointer and type parameters.
func receiverName(function *ast.FuncDecl) string {
	expression := function.Recv.List[0].Type
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

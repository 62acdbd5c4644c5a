// SPDX-License-Identifier: Apache-2.0

// Names that say nothing, files that do not say what they are, exported symbols that nobody explained.

package tidy

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// emptyWords say nothing about what a thing is.
var emptyWords = map[string]bool{
	"util": true, "utils": true, "helper": true, "helpers": true, "common": true, "misc": true, "manager": true, "managers": true,
}

var wordBoundary = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// emptyWord returns the first word of a name, in camel or snake case, that says nothing.
func emptyWord(name string) string {
	for _, word := range wordBoundary.FindAllString(name, -1) {
		if emptyWords[strings.ToLower(word)] {
			return word
		}
	}
	return ""
}

func checkNames(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		if word := emptyWord(f.path); word != "" {
			all = append(all, finding{path: f.path, message: "the word " + word + " says nothing about what is in it"})
		}
		// Tests have sentences for names, and a sentence may need the word.
		if f.syntax == nil || ast.IsGenerated(f.syntax) || f.isTest() {
			continue
		}
		for _, name := range declaredNames(f) {
			if word := emptyWord(name.Name); word != "" {
				all = append(all, t.at(f, name, "%s: the word %s says nothing about what it is", name.Name, word))
			}
		}
	}
	return all
}

// declaredNames returns the package, the functions and the types of a file.
func declaredNames(f *file) []*ast.Ident {
	all := []*ast.Ident{f.syntax.Name}
	for _, declaration := range f.syntax.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			all = append(all, declaration.Name)
		case *ast.GenDecl:
			all = append(all, typeNames(declaration)...)
		}
	}
	return all
}

func typeNames(declaration *ast.GenDecl) []*ast.Ident {
	var all []*ast.Ident
	for _, spec := range declaration.Specs {
		if named, ok := spec.(*ast.TypeSpec); ok {
			all = append(all, named.Name)
		}
	}
	return all
}

const (
	spdx       = "SPDX-License-Identifier: "
	licence    = "Apache-2.0"
	licenceBPF = "(GPL-2.0-only OR BSD-2-Clause)"
)

// checkOpenings demands the licence in the first line (the second after #!), and in Go files a comment that says what the
// file or the package is, before the first declaration.
func checkOpenings(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		wanted, needed := licenceOf(f)
		if !needed {
			continue
		}
		if !strings.Contains(firstLine(f.content), spdx+wanted) {
			all = append(all, finding{f.path, 1, "the first line must hold " + spdx + wanted})
		}
		if f.syntax != nil && !f.isTest() && !saysWhatItIs(f.syntax) {
			all = append(all, finding{f.path, 1, "the file must open with a comment: what it is, which RFC section it obeys, what it never does"})
		}
	}
	return all
}

// licenceOf returns the licence that a file has to name, and whether it has to name one.
func licenceOf(f *file) (string, bool) {
	switch {
	case f.syntax != nil && ast.IsGenerated(f.syntax), strings.Contains(f.path, "testdata/"):
		return "", false
	case inside(f.directory(), "bpf"):
		extension := path.Ext(f.path)
		return licenceBPF, extension == ".c" || extension == ".h"
	}
	return licence, f.syntax != nil || f.path == "Makefile" || bytes.HasPrefix(f.content, []byte("#!"))
}

func firstLine(content []byte) string {
	lines := strings.SplitN(string(content), "\n", 3)
	if strings.HasPrefix(lines[0], "#!") && len(lines) > 1 {
		return lines[1]
	}
	return lines[0]
}

// saysWhatItIs looks for a comment, other than the licence and directives, before the first declaration that is no import.
func saysWhatItIs(syntax *ast.File) bool {
	end := syntax.FileEnd
	for _, declaration := range syntax.Decls {
		if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		end = declaration.Pos()
		break
	}
	for _, comment := range syntax.Comments {
		if comment.Pos() < end && comment.Text() != "" && !strings.HasPrefix(comment.Text(), spdx) && !isDocOfDeclaration(syntax, comment) {
			return true
		}
	}
	return false
}

// isDocOfDeclaration reports whether the comment belongs to a declaration rather than to the file.
func isDocOfDeclaration(syntax *ast.File, comment *ast.CommentGroup) bool {
	for _, declaration := range syntax.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Doc == comment {
				return true
			}
		case *ast.GenDecl:
			if declaration.Doc == comment {
				return true
			}
		}
	}
	return false
}

// explained are methods whose interface says all there is to say.
var explained = map[string]bool{"Error": true, "Unwrap": true}

func checkExported(t *tree) []finding {
	var all []finding
	for _, f := range t.source() {
		if f.syntax.Name.Name == "main" {
			continue
		}
		for _, declaration := range f.syntax.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				all = append(all, t.undocumentedFunction(f, declaration)...)
			case *ast.GenDecl:
				all = append(all, t.undocumented(f, declaration)...)
			}
		}
	}
	return all
}

func (t *tree) undocumentedFunction(f *file, function *ast.FuncDecl) []finding {
	name := function.Name.Name
	if function.Doc != nil || !function.Name.IsExported() || !receiverExported(function) || function.Recv != nil && explained[name] {
		return nil
	}
	return []finding{t.at(f, function, "exported %s has no comment: meaning, units, errors, RFC section", name)}
}

func receiverExported(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	receiver := function.Recv.List[0].Type
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	root := rootOf(receiver)
	return root != nil && root.IsExported()
}

// undocumented finds exported types, constants and variables without a comment of their own, beside them, or, for members
// of a group, above the group.
func (t *tree) undocumented(f *file, declaration *ast.GenDecl) []finding {
	var all []finding
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && declaration.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				all = append(all, t.at(f, spec, "exported type %s has no comment", spec.Name.Name))
			}
		case *ast.ValueSpec:
			if spec.Names[0].IsExported() && declaration.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				all = append(all, t.at(f, spec, "exported %s has no comment", spec.Names[0].Name))
			}
		}
	}
	return all
}

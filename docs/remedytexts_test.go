// SPDX-License-Identifier: Apache-2.0

package docs

// Every text that says what to do about a problem, read from the source: remedies of `loci status`, `loci ping` and `loci netcheck`,
// hints of `loci check`, and what `loci explain` says. A text that cannot be read here is an error: write it as a literal.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// remedyDirectories have such texts.
var remedyDirectories = []string{"../config", "../daemon", "../diagnosis", "../cmd/loci"}

// variable stands for a part of a text that is known at run time alone.
const variable = "…"

// remedyText is one text, and where it stands.
type remedyText struct{ place, text string }

// isRemedyName reports whether a variable, parameter, field or result of that name is such a text.
func isRemedyName(name string) bool {
	switch strings.ToLower(name) {
	case "remedy", "whynot", "remediesofrloc", "removedkeys", "notusabletexts", "notusabletext", "skippedtext":
		return true
	}
	return strings.HasSuffix(strings.ToLower(name), "hint")
}

// remedyReader collects the texts of parsed files.
type remedyReader struct {
	files      *token.FileSet
	packages   map[string][]*ast.File    // by directory
	parameters map[string]map[int][]int  // of functions, by name and number of parameters: those that are texts
	results    map[string]bool           // functions that return one
	fields     map[string]map[string]int // types with a field that is one, by directory: its index
	found      []remedyText
	unreadable []string
}

// readRemedies reads all of them.
func readRemedies(t *testing.T) *remedyReader {
	t.Helper()
	r := &remedyReader{files: token.NewFileSet(), packages: map[string][]*ast.File{}, parameters: map[string]map[int][]int{}, results: map[string]bool{}, fields: map[string]map[string]int{}}
	for _, root := range remedyDirectories {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(r.files, path, nil, 0)
			r.packages[filepath.Dir(path)] = append(r.packages[filepath.Dir(path)], f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.read()
	return r
}

// read looks at declarations first, and then for the texts that reach them.
func (r *remedyReader) read() {
	for directory, files := range r.packages {
		for _, f := range files {
			r.declare(directory, f)
		}
	}
	for directory, files := range r.packages {
		for _, f := range files {
			s := remedyScope{remedyReader: r, directory: directory}
			ast.Inspect(f, s.visit)
		}
	}
}

func (r *remedyReader) declare(directory string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			r.declareFunction(n.Name.Name, n.Type)
		case *ast.AssignStmt:
			if literal, ok := n.Rhs[0].(*ast.FuncLit); ok {
				if name, ok := n.Lhs[0].(*ast.Ident); ok {
					r.declareFunction(name.Name, literal.Type)
				}
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				if at := remedyField(s); at >= 0 {
					if r.fields[directory] == nil {
						r.fields[directory] = map[string]int{}
					}
					r.fields[directory][n.Name.Name] = at
				}
			}
		}
		return true
	})
}

func (r *remedyReader) declareFunction(name string, f *ast.FuncType) {
	names := namesOf(f.Params)
	for at, parameter := range names {
		if isRemedyName(parameter) {
			if r.parameters[name] == nil {
				r.parameters[name] = map[int][]int{}
			}
			r.parameters[name][len(names)] = append(r.parameters[name][len(names)], at)
		}
	}
	if isRemedyName(name) || slices.ContainsFunc(namesOf(f.Results), isRemedyName) {
		r.results[name] = true
	}
}

func namesOf(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		if len(field.Names) == 0 {
			names = append(names, "")
		}
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// remedyField is the index of the field that is a text, or -1.
func remedyField(s *ast.StructType) int { return slices.IndexFunc(namesOf(s.Fields), isRemedyName) }

// remedyScope is a file, with the function that is looked at.
type remedyScope struct {
	*remedyReader
	directory string
	function  ast.Node       // where variables are looked up
	results   *ast.FieldList // of the innermost function
	name      string
}

func (s remedyScope) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Body != nil {
			inner := remedyScope{s.remedyReader, s.directory, n, n.Type.Results, n.Name.Name}
			ast.Inspect(n.Body, inner.visit)
		}
		return false
	case *ast.FuncLit:
		inner := remedyScope{s.remedyReader, s.directory, s.function, n.Type.Results, ""}
		ast.Inspect(n.Body, inner.visit)
		return false
	case *ast.AssignStmt:
		s.assign(n)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if isRemedyName(name.Name) && i < len(n.Values) {
				s.take(n.Values[i])
			}
		}
	case *ast.KeyValueExpr:
		if name, ok := n.Key.(*ast.Ident); ok && isRemedyName(name.Name) {
			s.take(n.Value)
		}
	case *ast.CompositeLit:
		s.composite(n)
	case *ast.CallExpr:
		s.call(n)
	case *ast.ReturnStmt:
		s.returned(n)
	}
	return true
}

func (s remedyScope) assign(n *ast.AssignStmt) {
	for i, to := range n.Lhs {
		if isRemedyName(lastName(to)) && len(n.Rhs) == len(n.Lhs) {
			s.take(n.Rhs[i])
		}
	}
}

// composite is for literals without keys.
func (s remedyScope) composite(n *ast.CompositeLit) {
	at, inner := -1, n.Type
	if array, ok := inner.(*ast.ArrayType); ok {
		inner = array.Elt
	}
	switch t := inner.(type) {
	case *ast.StructType:
		at = remedyField(t)
	case *ast.Ident:
		if field, ok := s.fields[s.directory][t.Name]; ok {
			at = field
		}
	}
	if at < 0 {
		return
	}
	if _, isList := n.Type.(*ast.ArrayType); !isList {
		s.element(n, at)
		return
	}
	for _, e := range n.Elts {
		if literal, ok := e.(*ast.CompositeLit); ok && literal.Type == nil {
			s.element(literal, at)
		}
	}
}

func (s remedyScope) element(n *ast.CompositeLit, at int) {
	if at < len(n.Elts) {
		if _, keyed := n.Elts[at].(*ast.KeyValueExpr); !keyed {
			s.take(n.Elts[at])
		}
	}
}

// call is for arguments that are texts; say is the explainer's.
func (s remedyScope) call(n *ast.CallExpr) {
	name := lastName(n.Fun)
	if f, ok := n.Fun.(*ast.SelectorExpr); ok && lastName(f.X) == "log" {
		return
	}
	if name == "say" && len(n.Args) > 0 {
		s.take(n.Args[0])
		return
	}
	for _, at := range s.parameters[name][len(n.Args)] {
		s.take(n.Args[at])
	}
}

func (s remedyScope) returned(n *ast.ReturnStmt) {
	if isRemedyName(s.name) && len(n.Results) == 1 {
		s.take(n.Results[0])
		return
	}
	names := namesOf(s.results)
	for i, result := range n.Results {
		if len(n.Results) == len(names) && isRemedyName(names[i]) {
			s.take(result)
		}
	}
}

// take reads the texts that an expression may be.
func (s remedyScope) take(e ast.Expr) {
	position := s.files.Position(e.Pos())
	place := fmt.Sprintf("%s:%d", strings.TrimPrefix(position.Filename, "../"), position.Line)
	texts, ok := s.texts(e)
	if !ok {
		s.unreadable = append(s.unreadable, place)
	}
	for _, text := range texts {
		if text = verb.ReplaceAllString(text, variable); text != "" {
			s.found = append(s.found, remedyText{place, text})
		}
	}
}

// texts are those that an expression may be. What comes from another such variable has been taken where that one is set.
func (s remedyScope) texts(e ast.Expr) (list []string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return []string{text}, err == nil
	case *ast.ParenExpr:
		return s.texts(e.X)
	case *ast.BinaryExpr:
		return s.joined(e), true
	case *ast.CompositeLit:
		return s.values(e)
	case *ast.Ident:
		return s.variable(e)
	case *ast.SelectorExpr:
		return nil, isRemedyName(e.Sel.Name)
	case *ast.IndexExpr:
		return s.texts(e.X)
	case *ast.CallExpr:
		return s.called(e)
	}
	return nil, false
}

// joined is a sum, of which each part may be known at run time alone.
func (s remedyScope) joined(e *ast.BinaryExpr) (list []string) {
	part := func(e ast.Expr) []string {
		if texts, ok := s.texts(e); ok && len(texts) > 0 {
			return texts
		}
		return []string{variable}
	}
	for _, left := range part(e.X) {
		for _, right := range part(e.Y) {
			list = append(list, left+right)
		}
	}
	return list
}

// values are those of a literal list or map.
func (s remedyScope) values(e *ast.CompositeLit) (list []string, ok bool) {
	for _, value := range e.Elts {
		if pair, keyed := value.(*ast.KeyValueExpr); keyed {
			value = pair.Value
		}
		texts, known := s.texts(value)
		if !known {
			return nil, false
		}
		list = append(list, texts...)
	}
	return list, true
}

func (s remedyScope) called(e *ast.CallExpr) (list []string, ok bool) {
	switch name := lastName(e.Fun); {
	case name == "Sprintf":
		formats, ok := s.texts(e.Args[0])
		for _, format := range formats {
			list = append(list, verb.ReplaceAllString(format, variable))
		}
		return list, ok
	case name == "Or":
		for _, a := range e.Args {
			texts, known := s.texts(a)
			if !known {
				return nil, false
			}
			list = append(list, texts...)
		}
		return list, true
	default:
		return nil, s.remedyReader.results[name]
	}
}

// variable finds what a variable of this function or package is set to.
func (s remedyScope) variable(name *ast.Ident) (list []string, ok bool) {
	if isRemedyName(name.Name) {
		return nil, true
	}
	within := []ast.Node{s.function}
	for _, f := range s.packages[s.directory] {
		within = append(within, f)
	}
	for _, scope := range within {
		if scope == nil {
			continue
		}
		for _, value := range assigned(scope, name.Name, scope == s.function) {
			texts, known := s.texts(value)
			if !known {
				return nil, false
			}
			list, ok = append(list, texts...), true
		}
		if ok {
			return list, true
		}
	}
	return nil, false
}

// assigned are the values that a variable gets within a node; of a file, the package's variables alone.
func assigned(within ast.Node, name string, isFunction bool) (values []ast.Expr) {
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return isFunction
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if lastName(to) == name && len(n.Lhs) == len(n.Rhs) {
					values = append(values, n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, to := range n.Names {
				if to.Name == name && i < len(n.Values) {
					values = append(values, n.Values[i])
				}
			}
		}
		return true
	})
	return values
}

// lastName is the name of a variable, a field or a function.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

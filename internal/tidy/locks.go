// SPDX-License-Identifier: Apache-2.0

// A lock belongs to the type that declares it: only its methods lock it, and nothing is given a way to it. So what
// a lock guards, and in which order locks are taken, can be read in one file. A mutex that is a function's own
// variable belongs to that function.

package tidy

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// lockedElsewhere are functions that lock what another type declares, or hand a lock out, with the reason. It may
// only become shorter.
var lockedElsewhere = map[string]string{
	"dataplane/model.Hosted:SendRouted":      hosted,
	"dataplane/model.Hosted:Receive":         hosted,
	"dataplane/model.Hosted:Account":         hosted,
	"dataplane/model.Hosted:Count":           hosted,
	"dataplane/model.Hosted:SendAgain":       hosted,
	"mapsock/server.Server:admit":            "all connections share a lock: one of them may wait in a system call",
	"mapsock/server.connection":              "it has that lock of the server's",
	"mapsock/server.newConnection":           "it is given that lock",
	"mapsock/server.connection:attend":       "it waits with that lock",
	"mapsock/server.observed:Apply":          ordered,
	"mapsock/server.observed:ForeignChanges": ordered,
	"mapsock/server.session:commit":          ordered,
	"mapsock/server.session:detach":          ordered,
	"mapsock/server.observed:Counters":       "the server counts what its own process left unread",
}

const (
	hosted  = "the model's engine with a host around it is a wrapper of the engine"
	ordered = "operations and their echoes are in one order, which the server's lock makes"
)

// lockMethods are those of sync.Mutex and sync.RWMutex.
var lockMethods = map[string]bool{
	"Lock": true, "Unlock": true, "TryLock": true,
	"RLock": true, "RUnlock": true, "TryRLock": true, "RLocker": true,
}

// locks are the names of a package's fields that are mutexes, by type.
type locks map[string]map[string]bool

// checkLocks looks at code that is no test: tests may look behind a lock.
func checkLocks(t *tree) []finding {
	var all []finding
	used := map[string]bool{}
	for directory, files := range t.sourceByDirectory() {
		declared := locksOf(files)
		for _, f := range files {
			for _, declaration := range f.syntax.Decls {
				where := directory + "." + declarationName(declaration)
				found := append(t.handedOut(f, declaration), t.lockedBy(f, declaration, declared)...)
				used[where] = used[where] || len(found) > 0
				all = append(all, unlessListed(where, found)...)
			}
		}
	}
	for where := range lockedElsewhere {
		if in, _ := cutLast(where); !used[where] && len(t.sourceByDirectory()[in]) > 0 {
			const message = "it locks nothing of another type: take it out of lockedElsewhere"
			all = append(all, finding{path: where, message: message})
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return cmp.Or(cmp.Compare(a.path, b.path), a.line-b.line) })
	return all
}

func unlessListed(where string, found []finding) []finding {
	if lockedElsewhere[where] != "" {
		return nil
	}
	return found
}

// declarationName is a function's, with its receiver's type before it, or a type's.
func declarationName(declaration ast.Decl) string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			return typeName(d.Recv.List[0].Type) + ":" + d.Name.Name
		}
		return d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if named, ok := spec.(*ast.TypeSpec); ok {
				return named.Name.Name
			}
		}
	}
	return ""
}

func locksOf(files []*file) locks {
	declared := locks{}
	for _, f := range files {
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if structure, ok := spec.Type.(*ast.StructType); ok {
				declared.addFields(spec.Name.Name, structure)
			}
			return true
		})
	}
	return declared
}

func (l locks) addFields(of string, structure *ast.StructType) {
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			if !isMutex(field.Type) {
				continue
			}
			if l[of] == nil {
				l[of] = map[string]bool{}
			}
			l[of][name.Name] = true
		}
	}
}

// has reports whether any type of the package has a mutex of that name.
func (l locks) has(field string) bool {
	for _, fields := range l {
		if fields[field] {
			return true
		}
	}
	return false
}

// isMutex reports whether a type is sync.Mutex or sync.RWMutex itself.
func isMutex(expression ast.Expr) bool {
	return isOfSync(expression, "Mutex") || isOfSync(expression, "RWMutex")
}

func isOfSync(expression ast.Expr, name string) bool {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "sync" && selector.Sel.Name == name
}

// handedOut finds fields, parameters and results that are ways to a lock of something else, mutexes that everyone
// may lock because they are embedded or exported, and variables of a package.
func (t *tree) handedOut(f *file, declaration ast.Decl) (found []finding) {
	if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.VAR {
		for _, spec := range general.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && value.Type != nil && isMutex(value.Type) {
				found = append(found, t.at(f, spec, "a mutex of a package belongs to no type"))
			}
		}
	}
	ast.Inspect(declaration, func(node ast.Node) bool {
		field, ok := node.(*ast.Field)
		if !ok {
			return true
		}
		pointer, _ := field.Type.(*ast.StarExpr)
		exported := slices.ContainsFunc(field.Names, func(name *ast.Ident) bool { return name.IsExported() })
		switch {
		case isOfSync(field.Type, "Locker"), pointer != nil && isMutex(pointer.X):
			found = append(found, t.at(f, field, "a lock is handed out: have its owner do what needs it"))
		case isMutex(field.Type) && len(field.Names) == 0:
			found = append(found, t.at(f, field, "an embedded mutex is open to everyone: name it"))
		case isMutex(field.Type) && exported:
			found = append(found, t.at(f, field, "an exported mutex can be locked by everyone"))
		}
		return true
	})
	return found
}

// lockedBy finds what a function locks that its receiver's type does not declare, and what it gives away.
func (t *tree) lockedBy(f *file, declaration ast.Decl, declared locks) (found []finding) {
	function, ok := declaration.(*ast.FuncDecl)
	if !ok || function.Body == nil {
		return nil
	}
	receiver, own := "", map[string]bool{}
	if function.Recv != nil && len(function.Recv.List[0].Names) > 0 {
		receiver, own = function.Recv.List[0].Names[0].Name, declared[typeName(function.Recv.List[0].Type)]
	}
	called, waited := map[ast.Expr]bool{}, map[ast.Expr]bool{} // for a sync.Cond that stands beside its lock
	ast.Inspect(function.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			called[node.Fun] = true
			if isOfSync(node.Fun, "NewCond") {
				waited[node.Args[0]] = true
			}
		case *ast.AssignStmt:
			if of, ok := node.Lhs[0].(*ast.SelectorExpr); ok && of.Sel.Name == "L" {
				waited[node.Rhs[0]] = true
			}
		case *ast.UnaryExpr:
			field, ok := node.X.(*ast.SelectorExpr)
			if ok && node.Op == token.AND && declared.has(field.Sel.Name) && !waited[node] {
				found = append(found, t.at(f, node, "%s is handed out", field.Sel.Name))
			}
		case *ast.SelectorExpr:
			field, ok := node.X.(*ast.SelectorExpr)
			if !ok || !lockMethods[node.Sel.Name] || !declared.has(field.Sel.Name) {
				return true
			}
			of, _ := field.X.(*ast.Ident)
			switch {
			case !called[node]:
				const message = "%s of %s is handed out"
				found = append(found, t.at(f, node, message, node.Sel.Name, field.Sel.Name))
			case of == nil || of.Name != receiver || !own[field.Sel.Name]:
				const message = "%s is locked outside the methods of the type that declares it"
				found = append(found, t.at(f, node, message, field.Sel.Name))
			}
		}
		return true
	})
	return found
}

// checkLockDocuments holds the comment of a package against its locks: who reads it learns which types have one.
func checkLockDocuments(t *tree) []finding {
	var all []finding
	for directory, files := range t.sourceByDirectory() {
		comment := ""
		for _, f := range files {
			comment += f.syntax.Doc.Text()
		}
		for owner := range locksOf(files) {
			if !hasWord(comment, "lock", "locks") || !hasWord(comment, owner) {
				message := "the comment of the package says nothing of the lock of " + owner
				all = append(all, finding{path: directory, message: message})
			}
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// hasWord reports whether a text has one of these words.
func hasWord(text string, words ...string) bool {
	all := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.ContainsFunc(all, func(word string) bool { return slices.Contains(words, word) })
}

// SPDX-License-Identifier: Apache-2.0

// The walls of size. What is larger does not fit on a screen, hence not in a head. Tests are aside: their tables may be long.

package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
)

// The walls. Aim at half of them.
const (
	maxFunctionLines = 70
	maxFileLines     = 800
	maxParameters    = 5
	maxNesting       = 3
)

func checkSize(t *tree) []finding {
	var all []finding
	for _, f := range t.source() {
		if lines := bytes.Count(f.content, []byte("\n")); lines > maxFileLines {
			all = append(all, finding{f.path, 0, fmt.Sprintf("%d lines, the wall is %d: split it by what it is about", lines, maxFileLines)})
		}
		for _, declaration := range f.syntax.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
				all = append(all, t.functionSize(f, function)...)
			}
		}
	}
	return all
}

func (t *tree) functionSize(f *file, function *ast.FuncDecl) []finding {
	var all []finding
	name := function.Name.Name
	if lines := t.set.Position(function.End()).Line - t.set.Position(function.Pos()).Line + 1; lines > maxFunctionLines {
		all = append(all, t.at(f, function, "%s has %d lines, the wall is %d", name, lines, maxFunctionLines))
	}
	if parameters := function.Type.Params.NumFields(); parameters > maxParameters {
		all = append(all, t.at(f, function, "%s has %d parameters, the wall is %d: some of them belong together", name, parameters, maxParameters))
	}
	depth := &nesting{}
	ast.Walk(depth, function.Body)
	if deepest := depth.deepest(); deepest > maxNesting {
		all = append(all, t.at(f, function, "%s nests %d levels deep, the wall is %d: return early, or name a part", name, deepest, maxNesting))
	}
	return all
}

// nesting measures how deep control structures stand inside each other. An else-if stands beside its if, and a function
// literal at the depth of the place where it is written.
type nesting struct {
	level int
	below []*nesting
}

func (n *nesting) deepest() int {
	deepest := n.level
	for _, inner := range n.below {
		deepest = max(deepest, inner.deepest())
	}
	return deepest
}

func (n *nesting) deeper() *nesting {
	inner := &nesting{level: n.level + 1}
	n.below = append(n.below, inner)
	return inner
}

// Visit implements ast.Visitor.
func (n *nesting) Visit(node ast.Node) ast.Visitor {
	switch node := node.(type) {
	case *ast.IfStmt:
		ast.Walk(n.deeper(), node.Body)
		if elseIf, ok := node.Else.(*ast.IfStmt); ok {
			ast.Walk(n, elseIf)
		} else if node.Else != nil {
			ast.Walk(n.deeper(), node.Else)
		}
		return nil
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return n.deeper()
	}
	return n
}

// checkSizeC measures files and functions of bpf/. It relies on the braces of a function standing in the first column, or at
// the end of a line that begins in the first column.
func checkSizeC(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		if !inside(f.directory(), "bpf") || !strings.HasSuffix(f.path, ".c") && !strings.HasSuffix(f.path, ".h") {
			continue
		}
		lines := strings.Split(string(f.content), "\n")
		if len(lines)-1 > maxFileLines {
			all = append(all, finding{f.path, 0, fmt.Sprintf("%d lines, the wall is %d: split it by what it is about", len(lines)-1, maxFileLines)})
		}
		all = append(all, functionSizesC(f.path, lines)...)
	}
	return all
}

func functionSizesC(name string, lines []string) []finding {
	var all []finding
	start := -1
	for i, line := range lines {
		switch {
		case line == "{" || opensFunctionC(line):
			start = i
		case strings.HasPrefix(line, "}") && start >= 0:
			if size := i - start + 1; size > maxFunctionLines {
				all = append(all, finding{name, start + 1, fmt.Sprintf("function of %d lines, the wall is %d", size, maxFunctionLines)})
			}
			start = -1
		}
	}
	return all
}

func opensFunctionC(line string) bool {
	return strings.HasSuffix(line, "{") && strings.Contains(line, "(") && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ")
}

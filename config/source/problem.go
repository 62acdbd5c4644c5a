// SPDX-License-Identifier: Apache-2.0

package source

// What is wrong with a configuration, and where: "file:line:column: what: hint".
// A problem never shows a secret.

import (
	"fmt"
	"strings"
)

// MaxProblems bounds the problems of one file that are told.
const MaxProblems = 20

// Position is a place in a file; Line and Column count from 1, in characters.
// Line 0 is the file as a whole.
type Position struct {
	File   string // empty for what a check says of the host rather than of a file
	Line   int
	Column int
}

// String is "file:line:column".
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one mistake, told in the words of the file.
type Problem struct {
	Position
	Path    string // of the value, as etr.local-eids[0].eid
	Message string // what is wrong
	Hint    string // what to do about it; may be empty
	source  *File
}

// Error is "file:line:column: what is wrong: hint".
func (p Problem) Error() string {
	text := p.Message
	if p.File != "" {
		text = p.Position.String() + ": " + text
	}
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	return text
}

// String is Error.
func (p Problem) String() string { return p.Error() }

// Detail is Error, then the line of the file and a caret below the place.
func (p Problem) Detail() string {
	line, caret := p.source.excerpt(Place{p.Line, p.Column}, p.Path, p.Message)
	if line == "" {
		return p.Error()
	}
	return fmt.Sprintf("%s\n    %s\n    %s^", p.Error(), line, strings.Repeat(" ", caret))
}

// Problems are all mistakes of a file, in the order of the file, at least one.
type Problems struct {
	List []Problem // at most 20
	More int       // those beyond
}

// Error is one line for each problem.
func (p *Problems) Error() string { return p.text(Problem.Error) }

// Detail is Error with the lines of the file.
func (p *Problems) Detail() string { return p.text(Problem.Detail) }

// Unwrap gives the problems one by one.
func (p *Problems) Unwrap() []error {
	errs := make([]error, len(p.List))
	for i, problem := range p.List {
		errs[i] = problem
	}
	return errs
}

// MoreText says that there are problems beyond those listed.
func (p *Problems) MoreText() string { return fmt.Sprintf("and %d more", p.More) }

func (p *Problems) text(one func(Problem) string) string {
	lines := make([]string, 0, len(p.List)+1)
	for _, problem := range p.List {
		lines = append(lines, one(problem))
	}
	if p.More > 0 {
		lines = append(lines, p.MoreText())
	}
	return strings.Join(lines, "\n")
}

// Place is a line and a column, from 1.
type Place struct{ line, column int }

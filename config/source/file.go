// SPDX-License-Identifier: Apache-2.0

package source

// The file that a configuration came from: where its values stand, and the problems
// found so far.

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// File is one file while it is read, and afterwards for later problems.
type File struct {
	name     string
	lines    []string
	places   map[string]Place // by path
	problems []Problem
	warnings []Problem
	known    map[string]bool // words that an excerpt may always show: the keys of the model
}

// New is a file by its text. An excerpt beside a secret shows no words but known ones.
func New(name, text string, known map[string]bool) *File {
	return &File{name: name, lines: strings.Split(text, "\n"), places: map[string]Place{}, known: known}
}

// SetPlace keeps where the value of a path stands.
func (s *File) SetPlace(path string, at Place) { s.places[path] = at }

// Has reports whether the file gives a value for a path.
func (s *File) Has(path string) bool {
	_, ok := s.places[path]
	return ok
}

// Paths are those of all values, in no order.
func (s *File) Paths() iter.Seq[string] { return maps.Keys(s.places) }

// Failed reports whether a problem was found.
func (s *File) Failed() bool { return len(s.problems) > 0 }

// PositionOf is where the value of a path stands, or the nearest section around it.
func (s *File) PositionOf(path string) Position {
	at := s.find(path)
	return Position{File: s.name, Line: at.line, Column: at.column}
}

// ProblemAt is a problem that is not recorded, at the position of a path.
func (s *File) ProblemAt(path, message, hint string) Problem {
	return s.problem(s.find(path), path, message, hint)
}

// Warnings are the warnings in the order of the file.
func (s *File) Warnings() []Problem {
	sortProblems(s.warnings)
	return s.warnings
}

// Fail records a problem at a path; the position is that of the value, or of the
// nearest section around it.
func (s *File) Fail(path, message, hint string) {
	s.FailAt(s.find(path), path, message, hint)
}

// FailAt records a problem at a place.
func (s *File) FailAt(at Place, path, message, hint string) {
	s.problems = append(s.problems, s.problem(at, path, message, hint))
}

// Warn records what is allowed but probably not meant.
func (s *File) Warn(path, message, hint string) {
	s.warnings = append(s.warnings, s.problem(s.find(path), path, message, hint))
}

func (s *File) problem(at Place, path, message, hint string) Problem {
	return Problem{
		Position: Position{File: s.name, Line: at.line, Column: at.column},
		Path:     path, Message: message, Hint: hint, source: s,
	}
}

// find is the place of a path, or of the nearest section around it.
func (s *File) find(path string) Place {
	for path != "" {
		if at, ok := s.places[path]; ok {
			return at
		}
		path = parentPath(path)
	}
	return s.places[""]
}

// parentPath cuts the last key or index.
func parentPath(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Result is the problems as an error, sorted and bounded; nil when there is none.
func (s *File) Result() error {
	if len(s.problems) == 0 {
		return nil
	}
	sortProblems(s.problems)
	told := s.problems[:min(len(s.problems), MaxProblems)]
	return &Problems{List: told, More: len(s.problems) - len(told)}
}

func sortProblems(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Join appends a key to a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Label is the last key of a path.
func Label(path string) string {
	if path == "" {
		return "the file"
	}
	if i := strings.IndexByte(path[strings.LastIndexByte(path, '.')+1:], '['); i >= 0 {
		path = path[:strings.LastIndexByte(path, '.')+1+i]
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// PathOf writes keys and indexes as etr.local-eids[0].eid.
func PathOf(path []any) string {
	text := ""
	for _, step := range path {
		if index, ok := step.(int); ok {
			text += fmt.Sprintf("[%d]", index)
		} else {
			text = Join(text, fmt.Sprint(step))
		}
	}
	return text
}

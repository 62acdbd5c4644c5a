// SPDX-License-Identifier: Apache-2.0

package config

// The file a configuration came from: where its values stand, and the problems
// found so far.

import (
	"cmp"
	"slices"
	"strings"
)

// place is a line and a column, from 1.
type place struct{ line, column int }

// source is one file while it is read, and afterwards for later problems.
type source struct {
	name      string
	lines     []string
	places    map[string]place // by path
	addresses []placedAddress  // of the file, in its order
	problems  []Problem
	warnings  []Problem
}

func newSource(name string, text string) *source {
	return &source{name: name, lines: strings.Split(text, "\n"), places: map[string]place{}}
}

// fail records a problem at a path; the position is that of the value, or of the
// nearest section around it.
func (s *source) fail(path, message, hint string) {
	s.failAt(s.find(path), path, message, hint)
}

func (s *source) failAt(at place, path, message, hint string) {
	s.problems = append(s.problems, s.problem(at, path, message, hint))
}

func (s *source) warn(path, message, hint string) {
	s.warnings = append(s.warnings, s.problem(s.find(path), path, message, hint))
}

func (s *source) problem(at place, path, message, hint string) Problem {
	return Problem{
		Position: Position{File: s.name, Line: at.line, Column: at.column},
		Path:     path, Message: message, Hint: hint, source: s,
	}
}

// find is the place of a path, or of the nearest section around it.
func (s *source) find(path string) place {
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

// result is the problems as an error, sorted and bounded; nil when there is none.
func (s *source) result() error {
	if len(s.problems) == 0 {
		return nil
	}
	sortProblems(s.problems)
	told := s.problems[:min(len(s.problems), maxProblems)]
	return &Problems{List: told, More: len(s.problems) - len(told)}
}

func sortProblems(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

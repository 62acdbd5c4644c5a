// SPDX-License-Identifier: Apache-2.0

package daemon

// What is wrong with a configuration, as a document: for `loci check --json` and for clients that ask for a reload.

import (
	"errors"

	"loci/config/source"
	"loci/daemon/api"
)

// ProblemsOf are the problems that an error of reading a configuration file holds, or the error alone.
func ProblemsOf(file string, err error) (list []api.ConfigProblem) {
	var problems *source.Problems
	if !errors.As(err, &problems) {
		return []api.ConfigProblem{{File: file, Message: err.Error()}}
	}
	for _, p := range problems.List {
		list = append(list, ProblemOf(p))
	}
	if problems.More > 0 {
		list = append(list, api.ConfigProblem{File: file, Message: problems.MoreText()})
	}
	return list
}

// ProblemOf is one problem, or a warning.
func ProblemOf(p source.Problem) api.ConfigProblem {
	return api.ConfigProblem{File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message, Hint: p.Hint}
}

// problemOf is what is answered to a reload that failed: with each mistake of the file, where that is why.
func problemOf(file string, err error) error {
	if problems := new(source.Problems); errors.As(err, &problems) {
		return &api.Problem{Message: err.Error(), Problems: ProblemsOf(file, err)}
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

// The walls of packages: a package is a subject that fits in a head. Tests and generated files do not count.

package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// The walls of a package.
const (
	maxPackageFiles = 25
	maxPackageLines = 4000
)

// manyFiles are packages without a wall: one file a message.
var manyFiles = map[string]bool{"wire": true}

func checkPackages(t *tree) []finding {
	files, lines := map[string]int{}, map[string]int{}
	for _, f := range t.source() {
		files[f.directory()]++
		lines[f.directory()] += bytes.Count(f.content, []byte("\n"))
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
	slices.SortFunc(all, func(a, b finding) int { return cmp.Compare(a.path, b.path) })
	return all
}

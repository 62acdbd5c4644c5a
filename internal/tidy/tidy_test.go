// SPDX-License-Identifier: Apache-2.0

package tidy

import (
	"os"
	"path/filepath"
	"testing"

	"loci/internal/testnet"
)

// root is the repository as seen from this package.
const root = "../.."

func TestRepository(t *testing.T) {
	repository, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, offence := range rule.check(repository) {
				t.Error(offence)
			}
		})
	}
}

func TestObjectsMatchTheirSource(t *testing.T) {
	requireCompiler(t)
	repository, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	lines := objectLines(repository)
	if len(lines) == 0 {
		t.Fatal("no line in the tree generates BPF objects")
	}
	for name, all := range lines {
		for _, arguments := range all {
			f := repository.file(name)
			compiler := objectCompiler{directory: filepath.Join(root, f.directory()), committed: filepath.Join(root, f.directory()), packageName: f.syntax.Name.Name}
			differences, err := compiler.compare(arguments, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, difference := range differences {
				t.Error(difference)
			}
		}
	}
}

func requireCompiler(t *testing.T) {
	t.Helper()
	for _, program := range []string{"clang-16", "llvm-strip-16"} {
		testnet.RequireProgram(t, program)
	}
}

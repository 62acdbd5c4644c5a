// SPDX-License-Identifier: Apache-2.0

// Where one command of Loci finds the other: beside itself, or else in PATH, as git finds its own.

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of another command of Loci. Its error says where it was looked for and what to do.
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, to look for %s beside it: %w", name, err)
	}
	beside, besideErr := exec.LookPath(filepath.Join(filepath.Dir(self), name))
	if besideErr == nil {
		return beside, nil
	}
	inPath, pathErr := exec.LookPath(name)
	if pathErr == nil {
		return filepath.Abs(inPath)
	}
	return "", &Exit{Status: StatusAbsent, Err: fmt.Errorf("the command %s is not found:\n  %s: %w\n  PATH (%s): %w\nInstall %s beside %s, from the same build; `make build` makes both",
		name, filepath.Join(filepath.Dir(self), name), cause(besideErr), os.Getenv("PATH"), cause(pathErr), name, self)}
}

// cause is the innermost error: the outer ones repeat the path.
func cause(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

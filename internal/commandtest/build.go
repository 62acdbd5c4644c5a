// SPDX-License-Identifier: Apache-2.0

// Package commandtest builds the commands for the tests that run them as processes.
package commandtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds commands of this module (loci, loci-lab) into a directory. They are compiled as by `make build`, so that what is
// compiled once serves all. The caller calls it once for a package.
func Build(directory string, names ...string) error {
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-o", directory + string(filepath.Separator)}
	for _, name := range names {
		arguments = append(arguments, "loci/cmd/"+name)
	}
	build := exec.Command("go", arguments...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", names, err, output)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// The committed BPF objects, and Go's mirror of bpf/abi.h, are what their source gives: everything is generated anew beside
// them, by the same go:generate line, and compared octet by octet.

package tidy

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const generateObjects = "//go:generate go tool bpf2go "

// objectLines returns the go:generate lines for BPF objects, by the path of the file they stand in.
func objectLines(t *tree) map[string][]string {
	all := map[string][]string{}
	for _, f := range t.source() {
		scanner := bufio.NewScanner(bytes.NewReader(f.content))
		for scanner.Scan() {
			if arguments, found := strings.CutPrefix(scanner.Text(), generateObjects); found {
				all[f.path] = append(all[f.path], arguments)
			}
		}
	}
	return all
}

// objectCompiler generates anew what a go:generate line gives.
type objectCompiler struct {
	directory   string // where the line stands
	committed   string // where stands what it made
	packageName string
}

// compare generates into an empty directory and returns one sentence for each file that differs from the committed one.
func (c objectCompiler) compare(arguments, empty string) ([]string, error) {
	command := exec.Command("go", append([]string{"tool", "bpf2go", "-output-dir", empty, "-go-package", c.packageName},
		strings.Fields(arguments)...)...)
	command.Dir = c.directory
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bpf2go in %s: %w\n%s", c.directory, err, output)
	}
	generated, err := os.ReadDir(empty)
	if err != nil {
		return nil, err
	}
	if len(generated) == 0 {
		return nil, fmt.Errorf("bpf2go in %s made nothing", c.directory)
	}
	var differences []string
	for _, entry := range generated {
		wanted, err := os.ReadFile(filepath.Join(empty, entry.Name()))
		if err != nil {
			return nil, err
		}
		committed, err := os.ReadFile(filepath.Join(c.committed, entry.Name()))
		if err != nil || !bytes.Equal(committed, wanted) {
			differences = append(differences, filepath.Join(c.committed, entry.Name())+" is not what its source gives: run `make generate` and commit the result")
		}
	}
	return differences, nil
}

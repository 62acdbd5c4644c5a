// SPDX-License-Identifier: Apache-2.0

package experiment

// The experiments that come with the command.

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"loci/config/codec"
	"loci/lab"
)

//go:embed files/*.yaml
var files embed.FS

const suffix = ".yaml"

// Listed is one experiment that comes with the command.
type Listed struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Origin      string   `json:"origin"`
	Variants    []string `json:"variants"`
	Rows        int      `json:"rows"` // in each variant
}

// List returns the experiments that come with the command, by name.
func List() ([]Listed, error) {
	entries, err := fs.ReadDir(files, "files")
	if err != nil {
		return nil, err
	}
	var all []Listed
	for _, entry := range entries {
		text, err := fs.ReadFile(files, "files/"+entry.Name())
		if err != nil {
			return nil, err
		}
		variants, err := readVariants(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		f := variants[0].file
		listed := Listed{Name: f.Name, Description: strings.TrimSpace(f.Description), Origin: f.Origin, Rows: len(f.Rows)}
		for _, v := range variants {
			listed.Variants = append(listed.Variants, v.Name)
		}
		all = append(all, listed)
	}
	return all, nil
}

// load finds an experiment by its name, or by the path of its file.
func load(name string) ([]byte, error) {
	if strings.HasSuffix(name, suffix) {
		return os.ReadFile(name)
	}
	text, err := fs.ReadFile(files, "files/"+name+suffix)
	if err != nil {
		return nil, &lab.UsageError{Err: fmt.Errorf("there is no experiment %q%s: `loci lab list` names them all; a file's name ends in %s", name, meant(name), suffix)}
	}
	return text, nil
}

// meant is a hint at the experiment that was probably meant; "" without one.
func meant(name string) string {
	all, err := List()
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	if near := codec.Nearest(name, names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

// Package manuals writes the manual pages of the packages: one for each command, from what its help says, and loci.yaml(5), from
// docs/configuration.md. It is in builds with the tag manuals alone, which serve the making of packages and are not installed.
package manuals

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"loci/internal/version"
)

// New makes the command `manuals DIRECTORY`, which writes the pages of root and of all below it.
func New(root *cobra.Command) *cobra.Command {
	var configuration string
	var date int64
	cmd := &cobra.Command{
		Use:    "manuals DIRECTORY",
		Short:  "Write the manual pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			day := time.Unix(date, 0).UTC()
			if configuration != "" {
				if err := writeConfiguration(arguments[0], configuration, day); err != nil {
					return err
				}
			}
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Date: &day, Source: "Loci " + version.String, Manual: "Loci"}
			return doc.GenManTree(root, header, arguments[0])
		},
	}
	cmd.Flags().StringVar(&configuration, "configuration", "", "also write loci.yaml(5) from this document")
	cmd.Flags().Int64Var(&date, "date", 0, "the date of the pages, in seconds since 1970")
	return cmd
}

// link is a link of Markdown to another file, or within one.
var link = regexp.MustCompile(`\[([^]]+)\]\(([^)]*)\)`)

// documents is where the Debian package has the documents.
const documents = "/usr/share/doc/loci/docs"

// installed is a link as it stands in a manual page: its text, and the file that the package has.
func installed(text []byte) []byte {
	parts := link.FindSubmatch(text)
	target, _, _ := strings.Cut(string(parts[2]), "#")
	if target == "" || strings.Contains(target, ":") {
		return parts[1]
	}
	file := path.Join(documents, target)
	if name := string(parts[1]); name != path.Base(target) && name != path.Base(target)+"/" {
		return []byte(name + " (" + file + ")")
	}
	return []byte(file)
}

// title is the first line of a document.
var title = regexp.MustCompile(`^# .*\n`)

func writeConfiguration(directory, document string, day time.Time) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text = title.ReplaceAll(link.ReplaceAllFunc(text, installed), nil)
	page := fmt.Sprintf("%% \"LOCI.YAML\" \"5\" \"%s\" \"Loci %s\" \"Loci\"\n# NAME\nloci.yaml - configuration of loci(1)\n\n# DESCRIPTION\n%s\n# SEE ALSO\n**loci(1)**, **loci-check(1)**, **loci-run(1)**\n", day.Format("Jan 2006"), version.String, text)
	return os.WriteFile(filepath.Join(directory, "loci.yaml.5"), md2man.Render([]byte(page)), 0o644)
}

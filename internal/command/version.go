// SPDX-License-Identifier: Apache-2.0

// The version of a command, and whether that of the other one is the same.

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"loci/internal/jsondoc"
	"loci/internal/version"
)

// versionWait bounds how long another command may take to tell its version.
const versionWait = 10 * time.Second

// versionDocument is what `version --json` prints.
type versionDocument struct {
	Version      string `json:"version"`
	Go           string `json:"go"`
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	// Without names what this build leaves out, such as the kernel's data plane on big-endian machines.
	Without []string `json:"without"`
}

// NewVersion makes the subcommand that prints the version. Where other finds the other command of Loci, a mismatch is told on
// standard error. With --json it prints its own version alone, for the other command to read. without names what this build
// leaves out.
func NewVersion(program string, without []string, other func() (path string, err error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + program + " version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := versionDocument{Version: version.String, Go: runtime.Version(), OS: runtime.GOOS, Architecture: runtime.GOARCH, Without: without}
			if asJSON {
				return jsondoc.Write(cmd.OutOrStdout(), own)
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), versionText(program, without)); err != nil {
				return err
			}
			path, err := other()
			if err != nil {
				return nil // a router needs no loci-lab
			}
			_, err = CheckVersion(cmd, path)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func versionText(program string, without []string) string {
	text := fmt.Sprintf("%s %s (%s, %s/%s)\n", program, version.String, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, w := range without {
		text += "without " + w + "\n"
	}
	return text
}

// AddVersionFlag has --version print what the subcommand of that name prints of this program. It stands in for the help that a root
// without a subcommand prints: the library's own flag needs text/template, which keeps the linker from leaving methods out, a fifth
// of the binary.
func AddVersionFlag(root *cobra.Command, without []string) {
	asked := root.Flags().Bool("version", false, "print the version")
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, arguments []string) {
		if cmd == root && *asked {
			fmt.Fprint(cmd.OutOrStdout(), versionText(root.Name(), without))
			return
		}
		help(cmd, arguments)
	})
}

// CheckVersion returns the version of another command of Loci. It tells on standard error that it is not this program's.
func CheckVersion(cmd *cobra.Command, path string) (string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), versionWait)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, "version", "--json").Output()
	if err != nil {
		return "", fmt.Errorf("%s version --json: %w", path, err)
	}
	var other versionDocument
	if err := json.Unmarshal(output, &other); err != nil || other.Version == "" {
		return "", fmt.Errorf("%s version --json: not a version of Loci: %q", path, output)
	}
	if other.Version != version.String {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: this is version %s, but %s is version %s: install both from the same build\n",
			cmd.Root().Name(), version.String, path, other.Version)
	}
	return other.Version, nil
}

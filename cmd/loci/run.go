// SPDX-License-Identifier: Apache-2.0

package main

// loci run: the daemon.

import (
	"github.com/spf13/cobra"

	"loci/daemon"
	"loci/daemon/engines"
	"loci/internal/command"
)

const defaultConfigFile = "/etc/loci/loci.yaml"

func newRunCommand() *cobra.Command {
	options, planes := daemon.Options{Engine: &engines.Choice{}}, string(daemon.PlanesBoth)
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run the router or mapping system that a configuration describes",
		Long: `Run the roles that the configuration file names until SIGTERM or Ctrl-C.

SIGHUP reads the file again; a file with an error changes nothing. The daemon may be
killed and started again at any time: the kernel goes on forwarding with the
mappings it has, and the next start adopts them. To end forwarding as well, use
--detach.

With --planes data and --planes control the planes are two processes, joined by the
mapping socket that datapath.mapping-socket names. Only the first needs privileges.
It needs no Map-Resolvers in its file, and has no control socket: loci status, show
and reload ask the second; loci map and mapstat ask the first.`,
		Example: `  loci run                      what ` + defaultConfigFile + ` describes
  loci run xtr.yaml --detach    stop forwarding when the daemon stops`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) (err error) {
			if len(files) > 0 && cmd.Flags().Changed("config") {
				return command.Usagef("two files: %s and --config %s", files[0], options.ConfigFile)
			}
			if len(files) > 0 {
				options.ConfigFile = files[0]
			}
			if options.Planes, err = daemon.ParsePlanes(planes); err != nil {
				return command.Usage(err)
			}
			options.LogTo = cmd.ErrOrStderr()
			return daemon.Run(cmd.Context(), options)
		},
	}
	cmd.Flags().StringVarP(&options.ConfigFile, "config", "c", defaultConfigFile, "the configuration file; the same as FILE")
	cmd.Flags().BoolVar(&options.DetachOnStop, "detach", false, "on a clean stop remove the data plane from the kernel")
	cmd.Flags().StringVar(&planes, "planes", planes, "which planes this process runs: both, data or control")
	return cmd
}

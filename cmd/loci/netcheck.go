// SPDX-License-Identifier: Apache-2.0

package main

// loci netcheck: what lies between this router and those that it works with.

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/config"
	"loci/control"
	"loci/daemon/api"
	"loci/diagnosis"
	"loci/internal/command"
	"loci/internal/jsondoc"
)

const maxNetcheckPeers = 1000

func newNetcheckCommand() *cobra.Command {
	flags, o := &ask.Flags{}, diagnosis.NetcheckOptions{NATServers: natServersOf}
	cmd := &cobra.Command{
		Use:   "netcheck",
		Short: "Check firewalls, NATs, path MTUs, keys, clock and checksums between this router and its peers",
		Long: `Check what lies between this router and those that it works with: its Map-Servers and
Map-Resolvers, and the routers of the map-cache; at a Map-Server those that have
registered. The checks are UDP ports 4342 and 4341 through firewalls in both
directions, NATs on the way to the Map-Servers, the MTU between each pair of RLOCs,
the key, the clock, and checksum offload. Each that fails has a reason and what to do. It needs root, in the daemon's
network namespace.

Exit status: 0 when no check failed, 1 when one did, 2 when an argument is wrong, 3 when
no daemon answers, or udp-4341 of a peer could not be tried (the verdict is
"incomplete").`,
		Example: `  loci netcheck
  loci netcheck --peers 100 --json | jq '.steps[] | select(.outcome == "failed")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Peers < 0 || o.Peers > maxNetcheckPeers {
				return command.Usagef("--peers %d: want 0 to %d", o.Peers, maxNetcheckPeers)
			}
			if err := checkTimeout(o.Timeout); err != nil {
				return command.Usage(err)
			}
			report, err := diagnosis.Netcheck(cmd.Context(), api.NewClient(flags.Socket), o)
			if err != nil {
				return err
			}
			if flags.AsJSON {
				err = jsondoc.WriteIndented(cmd.OutOrStdout(), report)
			} else {
				err = printSteps(cmd.OutOrStdout(), "netcheck", *report)
			}
			return errors.Join(err, stepsFailed(report))
		},
	}
	addSocketFlag(cmd, &flags.Socket)
	cmd.Flags().BoolVar(&flags.AsJSON, "json", false, "print one JSON object")
	cmd.Flags().IntVar(&o.Peers, "peers", 16, "check so many other routers at most")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", time.Second, "how long to wait for each answer, 100ms to 1m")
	return cmd
}

// natServersOf are the Map-Servers of a configuration file that EID-Prefixes are registered with.
func natServersOf(file string) (list []diagnosis.NATServer, err error) {
	c, err := config.Load(file)
	if err != nil || c.ETR == nil {
		return nil, err
	}
	for _, m := range c.ETR.MapServers {
		address := m.Address
		if address.Port() == 0 {
			address = netip.AddrPortFrom(address.Addr(), c.Control.Port)
		}
		known := slices.ContainsFunc(list, func(s diagnosis.NATServer) bool { return s.Address == address })
		at := slices.IndexFunc(c.ETR.LocalEIDs, func(e config.LocalEID) bool { return e.Site == m.Site })
		if known || at < 0 {
			continue
		}
		server := diagnosis.NATServer{Address: address, Prefix: c.ETR.LocalEIDs[at].Prefix()}
		for _, k := range m.Keys {
			server.Keys = append(server.Keys, control.Key{
				ID: k.ID, Algorithm: uint8(k.Algorithm), Secret: k.Value.Reveal(), TruncatedMAC: k.TruncatedMAC,
			})
		}
		list = append(list, server)
	}
	return list, nil
}

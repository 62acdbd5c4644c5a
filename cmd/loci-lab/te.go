// SPDX-License-Identifier: Apache-2.0

package main

// loci te: explicit locator paths by measured round-trip times.

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lab/te"
)

func newTECommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "te",
		Short: "Choose explicit locator paths by measured round-trip times",
		Long: `Traffic engineering with explicit locator paths (RFC 8060 s.4.6). The commands read
files and print; they ask no daemon, and no daemon computes paths.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTEChooseCommand())
	return cmd
}

// teOptions are the flags of `loci te choose`.
type teOptions struct {
	nodes                []string
	from, to             string
	avoid                []string
	policy               te.Policy
	maxAge               time.Duration
	name, keep, gain     string
	svg                  string
	asJSON, yaml, strict bool
}

func newTEChooseCommand() *cobra.Command {
	o := &teOptions{}
	cmd := &cobra.Command{
		Use:   "choose --node RLOC=FILE... --from RLOC --to RLOC",
		Short: "Choose the paths from one router to another whose round-trip times differ least",
		Long: `Choose explicit locator paths by the round-trip times that RLOC-probes measured. Each
--node names a router by the RLOC at which the others probe it, and a file with what it
tells: loci show locators --json. itr.rloc-probing.peers has routers probe each other.

The candidates are the shortest paths without loops by at most three RTRs. Of those whose
RTT is at most --ratio times the shortest one the set is chosen with the least
differential RTT, which is the smallest difference between two of its paths; then with
the least difference between its shortest and its longest path; then the shortest.

The RTT of a link is the median of the last 64 RLOC-probes of the router that sends; where
that one did not probe, of the other end. A locator that does not answer, or whose last
answer is older than --max-age, is no link. There are no links between addresses of IPv4
and IPv6. Nodes with the same file are one router with several RLOCs, which no path meets
twice.

Exit status: 0 when paths were chosen, 1 when there are none or a file is wrong, 2 when
an argument is wrong.`,
		Example: `  loci show locators --json >a.json                      on each router
  loci te choose --node 192.0.2.1=a.json --node 198.51.100.1=r.json \
    --node 203.0.113.1=b.json --from 192.0.2.1 --to 203.0.113.1
  loci te choose ... --paths 3 --link-disjoint --avoid 198.51.100.1
  loci te choose ... --yaml >paths.yaml                  for the configuration of --to
  loci te choose ... --keep paths.yaml --gain 10%
  loci te choose ... --svg paths.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.nodes, "node", nil,
		"a router: RLOC=FILE, the file from loci show locators --json; may be repeated")
	flags.StringVar(&o.from, "from", "", "the node where the paths begin")
	flags.StringVar(&o.to, "to", "", "the node where they end")
	flags.IntVar(&o.policy.Candidates, "k", te.MaxCandidates,
		fmt.Sprintf("how many candidates are compared, at most %d", te.MaxCandidates))
	flags.Float64Var(&o.policy.Ratio, "ratio", 1.5,
		"the largest RTT of a chosen path, as a multiple of the shortest one")
	flags.IntVar(&o.policy.Paths, "paths", 2, "how many paths are chosen")
	flags.BoolVar(&o.policy.LinkDisjoint, "link-disjoint", false,
		"choose paths of which no two share a link, in either direction")
	flags.StringSliceVar(&o.avoid, "avoid", nil, "RTRs that no path may go by: RLOC,...; may be repeated")
	flags.DurationVar(&o.maxAge, "max-age", 5*time.Minute, "the oldest measurement that counts")
	flags.StringVar(&o.name, "name", "te", "the name of the locator-set")
	flags.StringVar(&o.keep, "keep", "",
		"a configuration with the locator-set from before: it stays unless the new one is better by --gain")
	flags.StringVar(&o.gain, "gain", "10%", "with --keep: by how much the differential RTT of the new set must be less, or the RTT of a single path")
	flags.BoolVar(&o.strict, "strict", false,
		"mark RTRs strict in the locator-set, so that a path with a dead one is down")
	flags.StringVar(&o.svg, "svg", "", "also draw graph and paths into this file")
	flags.BoolVar(&o.yaml, "yaml", false, "print the set as locator-sets of a configuration")
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	cmd.MarkFlagsMutuallyExclusive("yaml", "json")
	return cmd
}

func (o *teOptions) run(cmd *cobra.Command) error {
	gain, err := o.validate(cmd)
	if err != nil {
		return err
	}
	told, err := readNodes(o.nodes)
	if err != nil {
		return err
	}
	now := time.Now()
	g, err := te.NewGraph(told, te.Age{Now: now, Max: o.maxAge})
	if err != nil {
		return err
	}
	if err := o.findNodes(g); err != nil {
		return err
	}
	choice, err := g.Choose(o.policy)
	if err != nil {
		return err
	}
	if o.keep != "" {
		text, err := os.ReadFile(o.keep)
		if err != nil {
			return err
		}
		old, err := te.SetIn(o.keep, text, o.name)
		if err != nil {
			return err
		}
		choice.Keep(g, o.policy, old, gain)
	}
	return o.print(cmd, te.Describe(g, o.policy, choice, now, o.name))
}

// validate checks what needs no file.
func (o *teOptions) validate(cmd *cobra.Command) (gain float64, err error) {
	p := o.policy
	switch {
	case len(o.nodes) == 0 || o.from == "" || o.to == "":
		return 0, command.Usagef("want --node RLOC=FILE for each router, --from RLOC and --to RLOC")
	case p.Candidates < 1 || p.Candidates > te.MaxCandidates:
		return 0, command.Usagef("--k %d: want 1 to %d", p.Candidates, te.MaxCandidates)
	case p.Paths < 1 || p.Paths > p.Candidates:
		return 0, command.Usagef("--paths %d: want 1 to --k, which is %d", p.Paths, p.Candidates)
	case !(p.Ratio >= 1 && p.Ratio <= maxRatio):
		return 0, command.Usagef("--ratio %g: want 1 to %d", p.Ratio, maxRatio)
	case o.maxAge <= 0:
		return 0, command.Usagef("--max-age %s: want more than 0s", o.maxAge)
	case cmd.Flags().Changed("gain") && o.keep == "":
		return 0, command.Usagef("--gain is for --keep")
	case o.strict && o.asJSON:
		return 0, command.Usagef("--strict is for locator-sets: it is of no use with --json")
	case strings.Trim(o.name, nameCharacters) != "" || o.name == "":
		return 0, command.Usagef("--name %q: want letters, digits, - and _", o.name)
	}
	text, isShare := strings.CutSuffix(o.gain, "%")
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !isShare || !(percent >= 0 && percent <= 100) {
		return 0, command.Usagef("--gain %s: want 0%% to 100%%", o.gain)
	}
	return percent / 100, nil
}

const (
	maxRatio       = 1000
	nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	// maxLocatorsOctets bounds a file of --node: some 50,000 locators.
	maxLocatorsOctets = 64 << 20
)

// readNodes reads what the routers tell.
func readNodes(nodes []string) ([]te.Told, error) {
	var all []te.Told
	for _, node := range nodes {
		name, file, ok := strings.Cut(node, "=")
		rloc, err := netip.ParseAddr(name)
		if !ok || file == "" || err != nil || rloc.Zone() != "" {
			return nil, command.Usagef("--node %s: want RLOC=FILE", node)
		}
		if slices.ContainsFunc(all, func(t te.Told) bool { return t.RLOC == rloc.Unmap() }) {
			return nil, command.Usagef("--node %s stands there twice", name)
		}
		if len(all) == te.MaxNodes {
			return nil, command.Usagef("--node: want at most %d", te.MaxNodes)
		}
		all = append(all, te.Told{RLOC: rloc.Unmap(), File: file})
	}
	for i := range all {
		if err := readLocators(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readLocators(t *te.Told) error {
	switch i, err := os.Stat(t.File); {
	case err != nil:
		return err
	case i.Size() > maxLocatorsOctets:
		return fmt.Errorf("%s: %d octets, want at most %d", t.File, i.Size(), maxLocatorsOctets)
	}
	text, err := os.ReadFile(t.File)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &t.Locators); err != nil {
		return fmt.Errorf("%s: want the output of loci show locators --json: %w", t.File, err)
	}
	return nil
}

// findNodes finds the nodes that flags name.
func (o *teOptions) findNodes(g *te.Graph) (err error) {
	if o.policy.From, err = findNode(g, "from", o.from); err != nil {
		return err
	}
	if o.policy.To, err = findNode(g, "to", o.to); err != nil {
		return err
	}
	from, to := g.Nodes[o.policy.From], g.Nodes[o.policy.To]
	switch {
	case from.RLOC == to.RLOC || from.File == to.File:
		return command.Usagef("--from %s and --to %s are one router", from.RLOC, to.RLOC)
	case from.RLOC.Is4() != to.RLOC.Is4():
		return command.Usagef("--from %s and --to %s are of two families: there is no link between these",
			from.RLOC, to.RLOC)
	}
	for _, avoid := range o.avoid {
		i, err := findNode(g, "avoid", avoid)
		if err != nil {
			return err
		}
		if i == o.policy.From || i == o.policy.To {
			return command.Usagef("--avoid %s: every path begins or ends there", avoid)
		}
		o.policy.Avoid = append(o.policy.Avoid, i)
	}
	return nil
}

func findNode(g *te.Graph, flag, rloc string) (int, error) {
	a, err := netip.ParseAddr(rloc)
	if err != nil {
		return 0, command.Usagef("--%s %s: want an RLOC", flag, rloc)
	}
	i, known := g.Find(a.Unmap())
	if !known {
		return 0, command.Usagef("--%s %s: there is no --node %[2]s=FILE", flag, rloc)
	}
	return i, nil
}

func (o *teOptions) print(cmd *cobra.Command, d *te.Document) error {
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(d.SVG()), 0o644); err != nil {
			return err
		}
	}
	switch out := cmd.OutOrStdout(); {
	case o.asJSON:
		return jsondoc.Write(out, d)
	case o.yaml:
		return d.WriteYAML(out, o.strict)
	default:
		if err := d.WriteText(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
		return d.WriteYAML(out, o.strict)
	}
}

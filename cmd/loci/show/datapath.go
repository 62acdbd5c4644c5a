// SPDX-License-Identifier: Apache-2.0

package show

// How loci show datapath prints what is in force in the kernel.

import (
	"fmt"
	"io"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

func printDatapath(out io.Writer, d api.Datapath) error {
	var programs, maps []string
	for _, p := range d.Programs {
		link := "-"
		if p.LinkID != 0 {
			link = fmt.Sprint(p.LinkID)
		}
		programs = append(programs, fmt.Sprintf("%s\t%s\t%s\t%d\t%s", p.Interface, p.Hook, p.Name, p.ID, link))
	}
	for _, m := range d.Maps {
		maps = append(maps, fmt.Sprintf("%s\t%s\t%d\t%s", m.Name, m.Type, m.MaxEntries, octets(m.Octets)))
	}
	fmt.Fprintf(out, "Layout %d, %s in the kernel\n\n", d.Layout, octets(d.Octets))
	if err := format.PrintRows(out, "INTERFACE\tHOOK\tPROGRAM\tID\tLINK", programs); err != nil {
		return err
	}
	t, s := d.Table, d.LocatorSets
	fmt.Fprintf(out, "\nForwarding table: %d of %d entries in %d roots; %s used, %s free, at most %s\n",
		t.Entries, t.EntryLimit, t.Roots, octets(t.UsedOctets), octets(t.FreeOctets), octets(t.LimitOctets))
	fmt.Fprintf(out, "Own EID-Prefixes with one next hop for all addresses: %d\n", t.SingleNextHops)
	fmt.Fprintf(out, "Locator-sets: %d of %d, with %d of %d locators\n\n", s.Sets, s.SetLimit, s.Locators, s.LocatorLimit)
	if l := d.AccessLists; l.Lists > 0 {
		fmt.Fprintf(out, "Access lists: %d, with %d prefixes\n\n", l.Lists, l.Prefixes)
	}
	if err := format.PrintRows(out, "MAP\tTYPE\tENTRIES\tMEMORY", maps); err != nil {
		return err
	}
	for _, f := range d.Missing {
		fmt.Fprintf(out, "\nThe kernel lacks %s: without it, %s.\n", f.Name, f.Lost)
	}
	return nil
}

// octets shows an amount of memory.
func octets(n uint64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d octets", n)
}

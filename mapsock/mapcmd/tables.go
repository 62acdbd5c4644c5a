// SPDX-License-Identifier: Apache-2.0

package mapcmd

// mapstat -X: the tables as in Figure 7 of the paper, Database and map-cache together,
// a family below the other.

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"loci/mapsock"
)

// entry is a row of a table.
type entry struct {
	Flags flagList `json:"flags"`
	mapping
	locators []mapsock.Locator
}

// tablesDocument is what mapstat -X --json prints.
type tablesDocument struct {
	Mappings   []entry           `json:"mappings"`
	Statistics map[string]uint64 `json:"statistics"`
}

func (r *mapstatRequest) showTables(c *connection, t Terminal) error {
	all, err := r.readTables(c)
	if err != nil {
		return err
	}
	var hits []lookup
	if r.statistics {
		if hits, err = readLookups(c); err != nil {
			return err
		}
	}
	if r.asJSON {
		return t.indented(tablesDocument{Mappings: all, Statistics: lookupsByName(hits)})
	}
	out := bufio.NewWriter(t.Out)
	fmt.Fprintln(out, "Mapping tables")
	for _, f := range []family{familyIPv4, familyIPv6, familyMAC, familyName} {
		rows := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return !f.covers(*e.EIDPrefix) })
		if len(rows) > 0 {
			fmt.Fprintf(out, "\n%s:\n", f.title())
			r.writeTable(out, rows)
		}
	}
	if r.statistics {
		writeLookups(out, hits)
	}
	return out.Flush()
}

// readTables reads both tables, in the order of their prefixes, the Database first
// where both have one.
func (r *mapstatRequest) readTables(c *connection) ([]entry, error) {
	all := []entry{}
	err := c.ask(&mapsock.Message{Type: mapsock.TypeDump, Flags: mapsock.FlagAll}, func(m *mapsock.Message) error {
		if m.HasEID && r.family.covers(m.Prefix) { // another program's data plane may say anything
			all = append(all, entry{flagList(m.Flags & tableFlags), mappingOf(m), preferredFirst(m.Locators)})
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b entry) int {
		return a.EIDPrefix.Compare(*b.EIDPrefix)
	})
	return all, err
}

// tableFlags are those of an entry that is in a table.
const tableFlags = mapFlags &^ (mapsock.FlagDone | mapsock.FlagExpired)

// mapLetters are OpenLISP's letters for the flags of a mapping, in the order of
// Figure 7.
var mapLetters = [...]struct {
	letter byte
	flag   mapsock.Flags
}{
	{'D', mapsock.FlagDatabase}, {'V', mapsock.FlagVersioning}, {'L', mapsock.FlagStatusBits},
	{'U', mapsock.FlagUp}, {'S', mapsock.FlagStatic}, {'N', mapsock.FlagNegative},
}

func (e *entry) letters() string {
	var letters []byte
	for _, known := range mapLetters {
		if mapsock.Flags(e.Flags)&known.flag != 0 {
			letters = append(letters, known.letter)
		}
	}
	return string(letters)
}

// references is what Refs says of every entry: the table's own. OpenLISP's kernel
// counts packets under way here; Loci's engines hold none by reference.
const references = "1"

// columns describes a table: what it heads, and which columns are numbers.
type columns struct {
	names []string
	right []bool
}

var (
	narrow = columns{[]string{"EID", "Flags", "Refs", "#", "RLOC(s)"}, []bool{false, false, true, true, false}}
	wide   = columns{
		[]string{"EID", "Flags", "Version", "Refs", "Hits", "#", "RLOC(s)", "Flags", "Pri", "Wgt", "MTU", "TxNonce", "RxNonce"},
		[]bool{false, false, true, true, true, true, false, false, true, true, true, true, true},
	}
)

func (r *mapstatRequest) writeTable(out io.Writer, entries []entry) {
	form, cells := narrow, (*entry).narrowCells
	if r.wide {
		form, cells = wide, (*entry).wideCells
	}
	rows := [][]string{form.names}
	for i := range entries {
		rows = append(rows, cells(&entries[i])...)
	}
	form.write(out, rows)
}

// narrowCells are the rows of an entry: one for each locator, the first beside the EID.
func (e *entry) narrowCells() [][]string {
	head := []string{e.EIDPrefix.String(), e.letters(), references}
	return e.rows(head, func(l *mapsock.Locator) []string { return nil })
}

func (e *entry) wideCells() [][]string {
	head := []string{e.EIDPrefix.String(), e.letters(), "-", references, "-"}
	if e.MapVersion != 0 {
		head[2] = strconv.Itoa(int(e.MapVersion))
	}
	if e.Packets != nil {
		head[4] = strconv.FormatUint(*e.Packets, 10)
	}
	return e.rows(head, func(l *mapsock.Locator) []string {
		cells := []string{locatorLetters(l), strconv.Itoa(int(l.Priority)), strconv.Itoa(int(l.Weight)), "-", "-", "-"}
		if l.MTU != 0 {
			cells[3] = strconv.FormatUint(uint64(l.MTU), 10)
		}
		if l.HasTxNonce {
			cells[4] = fmt.Sprintf("%#06x", l.TxNonce)
		}
		if l.HasRxNonce {
			cells[5] = fmt.Sprintf("%#06x", l.RxNonce)
		}
		return cells
	})
}

// rows puts the locators beside and below the head. A negative mapping has its action
// in their place.
func (e *entry) rows(head []string, metrics func(*mapsock.Locator) []string) [][]string {
	if len(e.locators) == 0 {
		action := "none"
		if e.Action != nil {
			action = e.Action.String()
		}
		return [][]string{append(head, "0", action)}
	}
	var all [][]string
	for i := range e.locators {
		row := append(slices.Clone(head), strconv.Itoa(i+1), pathText(&e.locators[i].Locator))
		all = append(all, append(row, metrics(&e.locators[i])...))
		head = make([]string, len(head))
	}
	return all
}

// write aligns the columns, numbers to the right, without blanks at the end of a line.
func (c columns) write(out io.Writer, rows [][]string) {
	widths := make([]int, len(c.names))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			width := -widths[i]
			if c.right[i] {
				width = widths[i]
			}
			fmt.Fprintf(&line, "%*s  ", width, cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

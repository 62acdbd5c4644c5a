// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

// The table in the kernel: made in one transaction, read, removed.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

func tableOf(lispInterface string) *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName(lispInterface)}
}

// install replaces the table by that of s, at once.
func (s *Spec) install() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := tableOf(s.LISP)
	conn.AddTable(table) // that there is one to delete
	conn.DelTable(table)
	conn.AddTable(table)
	for _, c := range chains {
		conn.AddChain(c.in(table))
	}
	comments := s.comments()
	for _, r := range s.rules() {
		comment := comments[r.chain][0]
		comments[r.chain] = comments[r.chain][1:]
		conn.AddRule(&nftables.Rule{
			Table: table, Chain: &nftables.Chain{Name: r.chain, Table: table},
			Exprs: r.match, UserData: []byte(comment),
		})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("table of nftables %s: %w", table.Name, err)
	}
	return nil
}

// remove removes the table of a LISP interface. It is not an error that there is none.
func remove(lispInterface string) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.DelTable(tableOf(lispInterface))
	if err := withoutTable(conn.Flush()); err != nil {
		return fmt.Errorf("table of nftables %s: %w", tableOf(lispInterface).Name, err)
	}
	return nil
}

// withoutTable is nil for errors of the kernel that mean that there is no table. It may have no tables at all: then the
// protocol is unknown to it, or messages of that kind.
func withoutTable(err error) error {
	for _, absent := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EINVAL} {
		if errors.Is(err, absent) {
			return nil
		}
	}
	return err
}

// counts are those of an entry's rules.
type counts struct{ sessions, unsolicited uint64 }

// read finds out whether the table is there as s has it, and what it has counted for each entry.
func (s *Spec) read() (intact bool, list []counts, err error) {
	conn, err := nftables.New()
	if err != nil {
		return false, nil, err
	}
	if intact, err = hasShape(conn, tableOf(s.LISP)); err != nil {
		return false, nil, err
	}
	list = make([]counts, len(s.Entries))
	entries, comments := s.counting(), s.comments()
	for _, c := range chains {
		rules, err := conn.GetRules(tableOf(s.LISP), c.in(tableOf(s.LISP)))
		if err != nil {
			return false, nil, err
		}
		var found []string
		for _, r := range rules {
			found = append(found, string(r.UserData))
			if entry, ok := entries[string(r.UserData)]; ok {
				list[entry].add(c.name, packetsOf(r))
			}
		}
		intact = intact && slices.Equal(found, comments[c.name])
	}
	return intact, list, nil
}

// hasShape reports whether a table is there, is in force, and has the chains that it is to have. Each is asked for by
// itself: a list of all chains of the host may lack some while others change.
func hasShape(conn *nftables.Conn, table *nftables.Table) (bool, error) {
	found, err := conn.ListTableOfFamily(table.Name, table.Family)
	if errors.Is(err, unix.ENOENT) || err == nil && found.Flags != 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, c := range chains {
		if found, err := conn.ListChain(table, c.name); err != nil || !c.is(found) {
			return false, nil // the package hides why; what lasts keeps the table from being made, too
		}
	}
	all, err := conn.ListChainsOfTableFamily(table.Family)
	foreign := func(found *nftables.Chain) bool {
		ours := func(c chain) bool { return c.name == found.Name }
		return found.Table.Name == table.Name && !slices.ContainsFunc(chains, ours)
	}
	return !slices.ContainsFunc(all, foreign), err
}

// counting are the entries that rules count for, by the rules' comments.
func (s *Spec) counting() map[string]int {
	entries, comments, next := map[string]int{}, s.comments(), map[string]int{}
	for _, r := range s.rules() {
		if r.entry >= 0 {
			entries[comments[r.chain][next[r.chain]]] = r.entry
		}
		next[r.chain]++
	}
	return entries
}

func (c *counts) add(chain string, packets uint64) {
	if chain == unsolicited.name {
		c.unsolicited += packets
	} else {
		c.sessions += packets
	}
}

func packetsOf(r *nftables.Rule) (packets uint64) {
	for _, e := range r.Exprs {
		if counter, ok := e.(*expr.Counter); ok {
			packets += counter.Packets
		}
	}
	return packets
}

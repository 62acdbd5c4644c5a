// SPDX-License-Identifier: Apache-2.0

package lispnat

// The state of a Translator, and what is wrong with it.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/daemon/trouble"
)

// Session is one of connection tracking. Of ICMP echo the port is the identifier.
type Session struct {
	Entry       int // of the configuration, from 0
	Protocol    uint8
	Source      netip.AddrPort // of the host
	Translated  netip.AddrPort // what Source became
	Destination netip.AddrPort
	Expires     time.Duration
}

// State is a copy.
type State struct {
	Table      string // of nftables; empty while nothing is translated
	Entries    []EntryState
	Restores   uint64 // times that the table was made anew because it was gone
	RestoredAt time.Time
	Problem    error // why nothing is translated
	// What the kernel refused because all ports were taken, and because connection tracking was full.
	RefusedPorts, RefusedTable uint64
	Tracked, TrackedLimit      uint64
}

// EntryState is what an entry does.
type EntryState struct {
	Entry
	Begun       uint64 // sessions, since the daemon's start or an earlier one that left the table
	Unsolicited uint64 // packets to the pool without a session, dropped
}

// State is what is translated now.
func (t *Translator) State() (s State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted == nil {
		return State{}
	}
	t.count()
	s = State{
		Table: tableName(t.wanted.LISP), Restores: t.restores, RestoredAt: t.restoredAt, Problem: t.problem,
		RefusedPorts: t.limits.ports.sum, RefusedTable: t.limits.table.sum,
	}
	for i, e := range t.wanted.Entries {
		last, earlier := t.last[i], t.earlier[i]
		s.Entries = append(s.Entries, EntryState{
			Entry: e, Begun: last.sessions + earlier.sessions,
			Unsolicited: last.unsolicited + earlier.unsolicited,
		})
	}
	s.Tracked, s.TrackedLimit = tracked()
	return s
}

// count reads what the table that is there has counted. The caller holds mu.
func (t *Translator) count() {
	if intact, found, err := t.wanted.read(); err == nil && intact {
		t.last = found
	}
}

// Sessions lists at most so many, and counts all.
func (t *Translator) Sessions(limit int) (list []Session, total int, err error) {
	t.mu.Lock()
	wanted := t.wanted
	t.mu.Unlock()
	if wanted == nil {
		return nil, 0, nil
	}
	for _, family := range wanted.families() {
		err = wanted.sessions(family, func(session Session) bool {
			total++
			if len(list) < limit {
				list = append(list, session)
			}
			return true
		})
		if err != nil {
			return list, total, fmt.Errorf("connection tracking: %w", err)
		}
	}
	return list, total, nil
}

func (s *Spec) families() (list []uint8) {
	for _, e := range s.Entries {
		family := uint8(unix.AF_INET)
		if e.From.Addr().Is6() {
			family = unix.AF_INET6
		}
		if !slices.Contains(list, family) {
			list = append(list, family)
		}
	}
	return list
}

// Trouble is what keeps packets from being translated.
func (t *Translator) Trouble(now time.Time) (list []trouble.Trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted == nil {
		return nil
	}
	if rloc, found := t.wanted.unusable(); found {
		list = append(list, trouble.Trouble{
			Kind: trouble.Translation, Subject: rloc.String(),
			What:   rloc.String() + " is an RLOC of this router, and in a pool of LISP-NAT",
			Effect: "packets that get it are dropped, or answers to them",
			Remedy: "give itr.lisp-nat a pool without it",
		})
	}
	if t.problem != nil {
		list = append(list, trouble.Trouble{
			Kind: trouble.Translation, What: "LISP-NAT does not work: " + t.problem.Error(),
			Effect: "packets of itr.lisp-nat leave untranslated",
			Remedy: "the kernel needs nftables with NAT, and the daemon CAP_NET_ADMIN", Since: t.since,
		})
	}
	if t.restores > 0 && now.Sub(t.restoredAt) < standsFor {
		list = append(list, trouble.Trouble{
			Kind: trouble.Translation, Subject: tableName(t.wanted.LISP),
			What: "the table of LISP-NAT was removed or changed by someone else, and is back: " +
				t.restoredAt.Format(time.DateTime),
			Effect: "packets passed untranslated meanwhile",
			Remedy: "let the host's firewall delete its own tables only, not flush the ruleset",
		})
	}
	if t.limits.ports.stands(now) {
		list = append(list, trouble.Trouble{
			Kind: trouble.Translation, Subject: "ports", What: portsTaken,
			Effect: "new sessions fail, those that are there go on",
			Remedy: "give itr.lisp-nat a larger pool; `loci show translations` lists the sessions",
		})
	}
	if t.limits.table.stands(now) {
		list = append(list, trouble.Trouble{
			Kind: trouble.Translation, Subject: "conntrack", What: tableFull,
			Effect: "new sessions fail, those that are there go on",
			Remedy: "raise net.netfilter.nf_conntrack_max",
		})
	}
	return list
}

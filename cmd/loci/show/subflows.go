// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
	"loci/lisp"
)

// loci show subflows.

func printSubflows(out io.Writer, subflows []api.Subflow) error {
	now := time.Now()
	var rows []string
	for i := range subflows {
		s := &subflows[i]
		session, heard, path := "unknown", "", s.PathText()
		if s.Session != nil {
			session = strconv.FormatUint(uint64(*s.Session), 10)
		}
		if s.LastHeardAt != nil {
			heard = format.Age(now, s.LastHeardAt) + " ago"
		}
		switch {
		case path == "":
			path = "not bound"
		case !s.InForce:
			path += " (not in force)"
		}
		why := s.Why
		if s.AnsweredBy != nil {
			why += " by " + s.AnsweredBy.String()
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s",
			endOf(s.InstanceID, s.Source, s.SourcePort),
			endOf(s.InstanceID, s.Destination, s.DestinationPort), session, path, why, s.State,
			format.Age(now, &s.OpenedAt), heard))
	}
	return format.PrintRows(out, "SOURCE\tDESTINATION\tSESSION\tPATH\tWHY\tSTATE\tAGE\tHEARD", rows)
}

// loci show answered-subflows.

func printAnsweredSubflows(out io.Writer, subflows []api.AnsweredSubflow) error {
	now := time.Now()
	var rows []string
	for i := range subflows {
		s := &subflows[i]
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s ago",
			endOf(s.InstanceID, s.Source, s.SourcePort),
			endOf(s.InstanceID, s.Destination, s.DestinationPort), s.PathText(), s.AskedBy,
			format.Age(now, &s.ChosenAt), format.Age(now, &s.AskedAt)))
	}
	return format.PrintRows(out, "SOURCE\tDESTINATION\tPATH\tASKED BY\tAGE\tASKED", rows)
}

// endOf is an EID with its port, and its Instance-ID in front where that is not 0.
func endOf(instance lisp.InstanceID, e lisp.EID, port uint16) string {
	text := netip.AddrPortFrom(e.Addr(), port).String()
	if instance != 0 {
		text = fmt.Sprintf("[%d]%s", instance, text)
	}
	return text
}

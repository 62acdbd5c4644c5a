// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show translations.

func printTranslations(out io.Writer, t api.Translations) error {
	if t.Table == "" {
		_, err := fmt.Fprintln(out, "nothing is translated: the configuration has no itr.lisp-nat")
		return err
	}
	var rows []string
	for _, e := range t.Entries {
		of := "private"
		if e.EIDs {
			of = "EIDs"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d", e.From, e.Pool, e.Translate, of, e.SessionsTotal, e.UnsolicitedTotal))
	}
	if err := format.PrintRows(out, "FROM\tPOOL\tTRANSLATE\tSOURCES\tSESSIONS SO FAR\tDROPPED UNSOLICITED", rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ntable inet %s, made anew %d times", t.Table, t.RestoredTotal)
	if t.RestoredAt != nil {
		fmt.Fprintf(out, ", %s ago", format.Age(time.Now(), t.RestoredAt))
	}
	fmt.Fprintf(out, "\nconnections tracked %d of %d; refused: ports %d, tracking %d\n\n", t.Tracked, t.TrackedLimit, t.RefusedPortsTotal, t.RefusedTrackingTotal)
	if t.Problem != "" {
		fmt.Fprintf(out, "nothing is translated: %s\n\n", t.Problem)
	}
	rows = nil
	for _, s := range t.Sessions {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.Protocol, s.Source, s.Translated, s.Destination, time.Duration(float64(s.ExpiresIn)*float64(time.Second))))
	}
	if err := format.PrintRows(out, "PROTOCOL\tSOURCE\tTRANSLATED\tDESTINATION\tEXPIRES IN", rows); err != nil {
		return err
	}
	if more := t.SessionCount - len(t.Sessions); more > 0 {
		_, err := fmt.Fprintf(out, "%d more\n", more)
		return err
	}
	return nil
}

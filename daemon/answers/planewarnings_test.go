// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/planeworker"
	"loci/dataplane"
	"loci/lisp"
)

// refusingPlane answers every change with one error, or takes it.
type refusingPlane struct {
	dataplane.Plane
	err error
}

func (p *refusingPlane) Apply(operations ...dataplane.Operation) []error {
	if p.err == nil {
		return nil
	}
	return slices.Repeat([]error{p.err}, len(operations))
}

// TestPlaneWarningsEnd: what the data plane refused once is no problem when it has taken it since.
func TestPlaneWarningsEnd(t *testing.T) {
	plane := &refusingPlane{err: dataplane.ErrFull}
	a := &Answers{Worker: planeworker.New(plane, slog.New(slog.DiscardHandler))}
	for _, p := range []string{"10.2.0.0/24", "2001:db8:2::/48"} {
		a.Worker.Change(control.RemoveMapping{Prefix: lisp.MustParsePrefix(p)})
	}
	began := time.Now()
	a.Worker.ApplyBatch()
	if list := a.planeWarnings(); len(list) != 1 || list[0].Since.Before(began) || list[0].What != "the data plane refuses changes of its tables: entries 2" {
		t.Errorf("after a refusal: %+v", list)
	}
	plane.err = nil
	for _, p := range []string{"10.2.0.0/24", "2001:db8:2::/48"} {
		a.Worker.Change(control.RemoveMapping{Prefix: lisp.MustParsePrefix(p)})
	}
	a.Worker.ApplyBatch()
	if list := a.planeWarnings(); len(list) != 0 || a.Worker.Refused() != 2 {
		t.Errorf("after they are taken: %+v, refusals %d", list, a.Worker.Refused())
	}
}

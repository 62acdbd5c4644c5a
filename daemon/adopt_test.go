// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/netip"
	"testing"

	"loci/config"
	"loci/control"
	"loci/daemon/plan"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// changedPlane counts changes.
type changedPlane struct {
	dataplane.Plane
	applied, operations int
}

func (p *changedPlane) Apply(operations ...dataplane.Operation) []error {
	p.applied++
	p.operations += len(operations)
	return p.Plane.Apply(operations...)
}

// entries is how many EID-Prefixes the Database has.
func (p *changedPlane) entries() (count int) {
	for range p.Database() {
		count++
	}
	return count
}

// TestShrunkDatabaseIsOneChange: what a configuration has no more when a start finds it in the data plane.
func TestShrunkDatabaseIsOneChange(t *testing.T) {
	plane := &changedPlane{Plane: model.New(model.Options{})}
	rloc := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.1"))
	if errs := plane.Plane.Apply(dataplane.SetSettings{Settings: dataplane.Settings{LocalRLOCs: []lisp.RLOC{rloc}}}); errs != nil {
		t.Fatal(errs)
	}
	locators := lisp.LocatorSet{{RLOC: rloc, Priority: 1, Weight: 100, Reachable: true}}
	etr := &control.ETRConfig{}
	for i := range 1000 {
		p := lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
		plane.Plane.Apply(dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: p, Locators: locators}})
		if i < 100 {
			etr.Database = append(etr.Database, control.DatabaseMapping{Prefix: p})
		}
	}
	d := &daemon{plane: plane}
	d.forgetDatabase(plan.Plan{Config: &config.Config{}, Control: control.Config{ETR: etr}})
	if plane.applied != 1 || plane.operations != 900 || plane.entries() != 100 {
		t.Errorf("%d changes with %d operations, %d EID-Prefixes left", plane.applied, plane.operations, plane.entries())
	}
	d.forgetDatabase(plan.Plan{Config: &config.Config{}, Control: control.Config{ETR: etr}})
	if plane.applied != 1 {
		t.Error("a change though nothing is to be changed")
	}
	d.forgetDatabase(plan.Plan{Config: &config.Config{}})
	if left := plane.entries(); left != 0 {
		t.Errorf("without an ETR: %d EID-Prefixes left", left)
	}
}

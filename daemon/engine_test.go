// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/config"
	"loci/daemon/engines"
	"loci/daemon/plan"
	"loci/daemon/policyroute"
	"loci/daemon/trouble"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/internal/testnet"
)

// losingFactory fails to change the engine.
type losingFactory struct {
	engines.Choice
	with error
}

func (f *losingFactory) Change(*config.Config, dataplane.Settings) error { return f.with }

// TestLostEngineIsTold: a change that failed alone leaves what is told of the engine; one that lost it is told with the reason.
func TestLostEngineIsTold(t *testing.T) {
	ns, err := testnet.ForTest(t).Namespace("xtr") // for rules and routes
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "loci0"}}); err != nil { // any link will do
		t.Fatal(err)
	}
	c, err := config.Parse("loci.yaml", []byte("interfaces: {site: [site0], core: [core0]}\nitr: {map-resolvers: [192.0.2.9]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	routed, err := policyroute.Open(func(func()) (dataplane.Plane, error) { return model.New(model.Options{}), nil }, policyroute.PolicyOf(c), false, log)
	if err != nil {
		t.Fatal(err)
	}
	factory := &losingFactory{}
	var e engineState
	e.note(factory, c, "", log)
	change := func(with error) {
		t.Helper()
		factory.with = with
		_ = ns.Do(func() error { err = e.change(factory, routed, plan.Plan{Config: c}, log); return nil })
		if !errors.Is(err, with) {
			t.Errorf("the change failed with %v, want %v", err, with)
		}
	}
	change(errors.New("no reason"))
	if name, _, _ := e.DataPlane(); name != "kernel" || len(e.lostPlane()) > 0 {
		t.Errorf("the engine is %s, lost: %v", name, e.lostPlane())
	}
	change(errors.Join(errors.New("the port is taken"), fmt.Errorf("%w: nothing is forwarded", dataplane.ErrClosed)))
	name, reason, _ := e.DataPlane()
	told := e.lostPlane()
	if name != "none" || strings.Contains(reason, "\n") || len(told) != 1 || told[0].Kind != trouble.PlaneLost || !strings.Contains(told[0].What, "the port is taken; the engine is closed") {
		t.Errorf("%s because of %q, told: %v", name, reason, told)
	}
}

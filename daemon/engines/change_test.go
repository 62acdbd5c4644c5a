// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"loci/config"
	"loci/dataplane"
	"loci/dataplane/model"
)

// configOf is a configuration with which neither engine opens.
func configOf(t *testing.T, engine, site string) *config.Config {
	t.Helper()
	in := map[string]string{"kernel": "pin-directory: /proc/nowhere", "user": `tun: "unix:/proc/nowhere.sock"`}[engine]
	c, err := config.Parse("loci.yaml", []byte(fmt.Sprintf(`interfaces: {site: [%s], core: [core0]}
itr: {map-resolvers: [192.0.2.9]}
datapath: {engine: %s, interface: lociNowhere, %s}
`, site, engine, in)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// choiceOf has an engine open as that of the kernel.
func choiceOf(t *testing.T, engine dataplane.Plane) *Choice {
	t.Helper()
	return &Choice{opened: opened{plane: newPlane(engine), config: configOf(t, "kernel", "site0"), log: slog.New(slog.DiscardHandler), remade: func() {}}}
}

// TestOneReasonIsToldOnce: what the configuration and the settings made of it say alike.
func TestOneReasonIsToldOnce(t *testing.T) {
	settings := dataplane.Settings{Interfaces: []dataplane.Interface{{Name: "site0", VLAN: 7}}}
	err := choiceOf(t, model.New(model.Options{})).Change(configOf(t, "user", "{interface: site0, vlan: 7}"), settings)
	if err == nil || strings.Count(err.Error(), "VLAN 7") != 1 || !strings.Contains(err.Error(), "loci.yaml:1:") {
		t.Errorf("%v, want the place in the file, once", err)
	}
}

// endingOnce is an engine that says so when it has ended, as the kernel's.
type endingOnce struct {
	*model.Engine
	ended bool
}

func (e *endingOnce) Detach(ctx context.Context) error {
	if e.ended {
		return dataplane.ErrClosed
	}
	e.ended = true
	return e.Engine.Detach(ctx)
}

// TestNoEngineIsOpen: where neither the new engine nor the one from before opens, that is told, also to later attempts, which would
// begin without tables.
func TestNoEngineIsOpen(t *testing.T) {
	c := choiceOf(t, &endingOnce{Engine: model.New(model.Options{})})
	for _, engine := range []string{"user", "user", "kernel"} {
		err := c.Change(configOf(t, engine, "site0"), dataplane.Settings{})
		if !errors.Is(err, dataplane.ErrClosed) || !strings.Contains(err.Error(), "nothing is forwarded until a restart") {
			t.Errorf("%s: %v", engine, err)
		}
	}
	if name, _ := c.Chosen(); name != "kernel" {
		t.Errorf("%s was chosen", name)
	}
	if errs := c.opened.plane.Apply(dataplane.Flush{MapCache: true}); len(errs) != 1 || !errors.Is(errs[0], dataplane.ErrClosed) {
		t.Errorf("an operation: %v", errs)
	}
	if err := c.opened.plane.Detach(t.Context()); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package kernelplane

// The kernel engine as daemon.EngineFactory wants it.

import (
	"fmt"
	"log/slog"

	"loci/config"
	"loci/dataplane"
	"loci/dataplane/kernel"
	"loci/dataplane/kernel/features"
)

// Included reports whether this build has the kernel's data plane.
const Included = true

// Engine is the kernel as a place for data planes.
type Engine struct{}

// Open opens the data plane of a configuration, or takes over the one that an earlier run left. remade is called when
// the LISP interface was made anew.
func (Engine) Open(c *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	return kernel.Open(kernel.Options{
		PinDirectory: c.Datapath.PinDirectory, TAP: c.Datapath.Interface, MappingLimit: mappings,
		NoShortcut: !c.Datapath.VethShortcut, Logger: log, TAPRemade: remade,
	})
}

// Chosen names the engine.
func (Engine) Chosen() (name, why string) { return string(config.EngineKernel), "" }

// Refuses says what the kernel lacks, or does not let this process use, of what the data plane needs; nil: nothing.
func (Engine) Refuses() error { return features.Missing() }

// Missing names the features that the kernel lacks, with the effect of each.
func (Engine) Missing() (missing []string) {
	for _, f := range features.Probe() {
		if !f.Present {
			missing = append(missing, fmt.Sprintf("the kernel lacks %s: without it, %s", f.Name, f.Lost))
		}
	}
	return missing
}

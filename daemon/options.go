// SPDX-License-Identifier: Apache-2.0

package daemon

// What the command line and the command give to a daemon.

import (
	"fmt"
	"io"
	"log/slog"

	"loci/config"
	"loci/dataplane"
)

// Options are what the command line says.
type Options struct {
	ConfigFile   string
	DetachOnStop bool // on a clean stop remove the data plane from the kernel
	Planes       Planes
	Engine       EngineFactory
	LogTo        io.Writer
}

// EngineFactory opens the data plane that runs in this process, and tells what this host has for it.
type EngineFactory interface {
	// Open opens the data plane of a configuration for so many mappings, or takes over the one that an earlier run
	// left. remade is called when the LISP interface was made anew.
	Open(c *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error)
	// Change replaces the engine that was opened by the one that another configuration chooses, if that is another, with all that its
	// tables hold; it begins with these settings. After an error the one from before forwards; after dataplane.ErrClosed none does.
	Change(to *config.Config, settings dataplane.Settings) error
	// Chosen names the engine that was opened, and says why where it is not the one that comes first.
	Chosen() (name, why string)
	// Missing names the features that this host lacks, with what is lost by each.
	Missing() []string
	// SkippedRules warns of rules of this host for forwarded packets that the data plane passes by.
	SkippedRules(c *config.Config) []string
	// WithoutEffect warns of keys that the data plane does not heed.
	WithoutEffect(c *config.Config) []string
	// PinTrouble says what is wrong with the pin directory, or cannot be done: an error where the data plane could not start.
	PinTrouble(c *config.Config) (warning string, err error)
	// PassingPins warns of pins that end with this mount namespace.
	PassingPins(directory string) (warning string)
}

// Planes says which planes a process runs.
type Planes string

// The choices. A process with the data plane alone holds the privileges; one with
// the control plane alone needs none.
const (
	PlanesBoth    Planes = "both"
	PlanesData    Planes = "data"
	PlanesControl Planes = "control"
)

// ParsePlanes reads the choice.
func ParsePlanes(s string) (Planes, error) {
	switch p := Planes(s); p {
	case PlanesBoth, PlanesData, PlanesControl:
		return p, nil
	}
	return "", fmt.Errorf("planes %q: want both, data or control", s)
}

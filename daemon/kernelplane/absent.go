// SPDX-License-Identifier: Apache-2.0

//go:build mips || mips64 || ppc64 || s390x || nokernel

package kernelplane

// What a build without the kernel's data plane has in its place: the programs are of little-endian machines, and the tag nokernel leaves them out of
// small ones.

import (
	"errors"
	"log/slog"

	"loci/config"
	"loci/dataplane"
)

// Included reports whether this build has the kernel's data plane.
const Included = false

var errAbsent = errors.New("this build has no data plane for the kernel (loci version)")

// Engine is the kernel as a place for data planes, which has none here.
type Engine struct{}

// Open fails.
func (Engine) Open(*config.Config, int, *slog.Logger, func()) (dataplane.Plane, error) {
	return nil, errAbsent
}

// Chosen names the engine.
func (Engine) Chosen() (name, why string) { return string(config.EngineKernel), "" }

// Refuses is always so.
func (Engine) Refuses() error { return errAbsent }

// Missing has nothing to say.
func (Engine) Missing() []string { return nil }

// SkippedRules has nothing to say.
func (Engine) SkippedRules(*config.Config) []string { return nil }

// CheckPins fails where the configuration wants the kernel.
func (Engine) CheckPins(c *config.Config) (warning string, err error) {
	return "", c.Problem("engine: "+errAbsent.Error()+": want user or auto", "datapath", "engine")
}

// PinTrouble is CheckPins.
func (e Engine) PinTrouble(c *config.Config) (warning string, err error) { return e.CheckPins(c) }

// PassingPins has nothing to say.
func (Engine) PassingPins(string) string { return "" }

// IsBusy is about no error.
func IsBusy(error) bool { return false }

// WasLeft reports that nothing is in the kernel.
func WasLeft(*config.Config) bool { return false }

// MapCache is empty.
func MapCache(*config.Config, *slog.Logger) ([]dataplane.Operation, error) { return nil, nil }

// Unmount has nothing to unmount.
func Unmount(*config.Config) error { return nil }

// Remove has nothing to remove.
func Remove(*config.Config) error { return nil }

// SPDX-License-Identifier: Apache-2.0

// Package engines chooses the data plane that a daemon opens: programs in the kernel, or user space, as
// datapath.engine says. What the other one left is taken over.
//
// plane has the lock: who replaces the engine holds it, who changes its tables shares it. It guards whether the
// plane has ended.
package engines

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"loci/config"
	"loci/daemon/kernelplane"
	"loci/daemon/lispnat"
	"loci/daemon/policyroute"
	"loci/daemon/userplane"
	"loci/dataplane"
	"loci/dataplane/user"
)

// Choice is the engine that a configuration chooses; it is a daemon.EngineFactory.
type Choice struct {
	kernel kernelplane.Engine
	user   bool  // it is the one in user space
	why    error // why not the kernel's
	opened opened
}

// Open opens the data plane of a configuration, or takes over the one that an earlier run left, of whichever engine.
// remade is called when the LISP interface was made anew.
func (c *Choice) Open(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	engine, err := c.open(of, mappings, log, remade)
	if err != nil {
		return nil, err
	}
	c.opened = opened{plane: newPlane(engine), config: of, mappings: mappings, log: log, remade: remade}
	return c.opened.plane, nil
}

func (c *Choice) open(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	if of.Datapath.Engine == config.EngineUser {
		return c.openUser(of, mappings, log, remade)
	}
	plane, err := c.openKernel(of, mappings, log, remade)
	if err == nil || of.Datapath.Engine == config.EngineKernel || isBusy(err) {
		return plane, err
	}
	log.Warn("packets are forwarded in user space: the kernel refuses its data plane", "error", err)
	c.why = err
	inUser, userErr := dataplane.Plane(nil), undone(of)
	if userErr == nil {
		inUser, userErr = c.openUser(of, mappings, log, remade)
	}
	if userErr != nil {
		return nil, errors.Join(err, userErr)
	}
	return inUser, nil
}

func (c *Choice) openKernel(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	if _, err := c.kernel.PinTrouble(of); err != nil {
		return nil, err
	}
	if of.Datapath.Engine == config.EngineAuto { // what user space left stays where it will be taken over
		if err := c.kernel.Refuses(); err != nil {
			return nil, err
		}
	}
	if err := user.Remove(of.Datapath.Interface); err != nil {
		return nil, err
	}
	plane, err := c.kernelEngine(of, mappings, log, remade)
	if err != nil {
		return nil, err
	}
	userplane.Restore(plane, userplane.MapCacheFile(of), log)
	c.user, c.why = false, nil
	return plane, nil
}

func (c *Choice) kernelEngine(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	return c.kernel.Open(of, mappings, log, remade)
}

func userEngine(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	plane, err := userplane.Open(of, mappings, log, remade)
	if err != nil {
		return nil, err
	}
	return plane, nil
}

func (c *Choice) openUser(of *config.Config, mappings int, log *slog.Logger, remade func()) (dataplane.Plane, error) {
	kept, err := takeFromKernel(of, log)
	if err != nil {
		return nil, err
	}
	plane, err := userEngine(of, mappings, log, remade)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(plane.Apply(kept...)...); err != nil {
		log.Warn("the map-cache of the kernel's data plane is not taken over whole", "error", err)
	}
	c.user = true
	return plane, nil
}

// takeFromKernel ends what the kernel's data plane of an earlier run forwards, and returns its map-cache.
func takeFromKernel(of *config.Config, log *slog.Logger) (kept []dataplane.Operation, err error) {
	if !kernelplane.WasLeft(of) {
		return nil, nil
	}
	kept, err = kernelplane.MapCache(of, log)
	if isBusy(err) {
		return nil, err
	}
	if err != nil {
		log.Warn("the map-cache of the kernel's data plane is lost", "error", err)
	}
	if err := kernelplane.Remove(of); err != nil {
		return nil, fmt.Errorf("ending the kernel's data plane: %w", err)
	}
	return kept, nil
}

// Chosen names the engine, and says why it is not the kernel's where it was to be that.
func (c *Choice) Chosen() (name, why string) {
	switch {
	case !c.user:
		return string(config.EngineKernel), ""
	case c.why == nil:
		return string(config.EngineUser), ""
	}
	return string(config.EngineUser), c.why.Error()
}

// Missing names the features that this host lacks, with the effect of each.
func (c *Choice) Missing() []string {
	if !c.user {
		return c.kernel.Missing()
	}
	if c.why != nil {
		return []string{fmt.Sprintf("packets are forwarded in user space, which is slower: %v", c.why)}
	}
	return nil
}

// SkippedRules warns of rules of this host for forwarded packets that the data plane passes by.
func (c *Choice) SkippedRules(of *config.Config) []string {
	if of.Datapath.Engine == config.EngineUser || c.user {
		return nil
	}
	return c.kernel.SkippedRules(of)
}

// WithoutEffect warns of keys that the data plane does not heed.
func (c *Choice) WithoutEffect(of *config.Config) []string {
	if of.Datapath.Engine == config.EngineUser || c.user {
		return idle(of)
	}
	return nil
}

// PinTrouble says what is wrong with the pin directory: an error where the data plane could not start. In user space,
// which has no pins, that is what it does not do of a configuration.
func (c *Choice) PinTrouble(of *config.Config) (warning string, err error) {
	return c.pins(of, c.kernel.PinTrouble)
}

// Check says what is wrong with a configuration on a host where no data plane is about to be opened: an error where
// it could not start.
func (c *Choice) Check(of *config.Config) (warnings []string, err error) {
	warnings = append(c.SkippedRules(of), c.WithoutEffect(of)...)
	pins, err := c.pins(of, c.kernel.CheckPins)
	if pins != "" {
		warnings = append(warnings, pins)
	}
	if problem := undone(of); problem != nil && of.Datapath.Engine == config.EngineAuto {
		warnings = append(warnings, "where the kernel refuses eBPF the daemon would not start: "+problem.Error())
	}
	return warnings, err
}

func (c *Choice) pins(of *config.Config, ask func(*config.Config) (string, error)) (warning string, err error) {
	if err := untranslated(of); err != nil {
		return "", err
	}
	if of.Datapath.Engine == config.EngineUser {
		return "", undone(of)
	}
	warning, err = ask(of)
	if err != nil && of.Datapath.Engine == config.EngineAuto {
		return "", nil // told when the engine in user space takes its place
	}
	return warning, err
}

// PassingPins warns of pins that end with this mount namespace.
func (c *Choice) PassingPins(directory string) (warning string) {
	if c.user {
		return ""
	}
	return c.kernel.PassingPins(directory)
}

// Detach removes what a daemon with that configuration file left, of whichever engine, in the calling thread's
// network namespace. With anyway the file may have mistakes. It is not an error that nothing is left; a daemon that
// still runs is one, and stays as it is.
func Detach(configFile string, anyway bool) error {
	c, err := config.Load(configFile)
	if err != nil && !anyway {
		return err
	}
	if err != nil {
		c = config.LoadAnyway(configFile)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("removing a data plane needs root: %w", fs.ErrPermission)
	}
	if err = userplane.Remove(c); err == nil {
		err = kernelplane.Remove(c)
	}
	if isBusy(err) {
		return fmt.Errorf("%w: %w", err, ErrInUse)
	}
	return errors.Join(err, lispnat.Remove(c.Datapath.Interface), policyroute.PolicyOf(c).Remove(), kernelplane.Unmount(c)) // policy routing keeps notes beside the pins
}

// ErrInUse says that a running daemon has the data plane.
var ErrInUse = errors.New("stop the daemon first")

// isBusy reports whether another daemon has the data plane, of whichever engine.
func isBusy(err error) bool { return kernelplane.IsBusy(err) || errors.Is(err, user.ErrBusy) }

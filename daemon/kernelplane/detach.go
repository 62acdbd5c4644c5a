// SPDX-License-Identifier: Apache-2.0

package kernelplane

// The end of what a daemon left in force: forwarding, rules, routes, settings of the
// kernel. It needs neither the daemon nor a build that understands its tables, and
// does nothing to a daemon that runs.

import (
	"errors"
	"fmt"
	"os"

	"loci/config"
	"loci/daemon/policyroute"
	"loci/dataplane/kernel"
	"loci/dataplane/kernel/pins"
)

// Detach removes what a daemon with that configuration file left in the kernel, in
// the calling thread's network namespace. It is not an error that nothing is left; a daemon that
// still runs is one, and stays as it is.
func Detach(configFile string) error {
	c, err := config.Load(configFile)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("removing a data plane from the kernel needs root")
	}
	err = kernel.Remove(kernel.Options{PinDirectory: c.Datapath.PinDirectory, TAP: c.Datapath.Interface})
	if errors.Is(err, pins.ErrBusy) {
		return fmt.Errorf("%w: stop the daemon first", err)
	}
	return errors.Join(err, policyroute.PolicyOf(c).Remove())
}

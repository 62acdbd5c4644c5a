// SPDX-License-Identifier: Apache-2.0

package kernelplane

// The end of what a daemon left in the kernel. It needs neither the daemon nor a build that understands its tables.

import (
	"loci/config"
	"loci/dataplane/kernel"
)

// Remove removes programs, tables and the LISP interface that a daemon with that configuration left, in the calling thread's
// network namespace. It is not an error that nothing is left; pins.ErrBusy is for a daemon that still runs, and stays as it is.
func Remove(c *config.Config) error {
	return kernel.Remove(kernel.Options{PinDirectory: c.Datapath.PinDirectory, TAP: c.Datapath.Interface})
}

// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package kernelplane

// Where the kernel keeps tables and programs while no daemon runs: the directory has to be
// on a BPF file system, which is mounted for it where it is not.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"loci/config"
	"loci/dataplane/kernel/pins"
)

// CheckPins says what is wrong with the configured pin directory on this host: an error
// where the data plane could not start. About a directory that does not exist it says
// nothing: it may be on a BPF file system when it is made.
func (e Engine) CheckPins(c *config.Config) (warning string, err error) {
	if _, err := os.Stat(c.Datapath.PinDirectory); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return e.PinTrouble(c)
}

// PinTrouble is CheckPins for a daemon that is about to open its data plane.
func (Engine) PinTrouble(c *config.Config) (warning string, err error) {
	directory := c.Datapath.PinDirectory
	if !c.UsesDataPlane() {
		return "", nil
	}
	problem := func(what, hint string) error {
		return c.Problem(fmt.Sprintf("pin-directory: %s: %s", what, hint), "datapath", "pin-directory")
	}
	target, err := pins.Mount(directory)
	switch {
	case err != nil:
		return "", problem(err.Error(), "want a directory below /sys/fs/bpf")
	case target == "" || target == pins.UsualFileSystem:
		return "", nil
	}
	return problem(directory+" is not on a BPF file system, so that the daemon mounts one there",
		"all pins are lost when that is unmounted; want a directory below /sys/fs/bpf").Error(), nil
}

// PassingPins warns of pins that end with this mount namespace.
func (Engine) PassingPins(directory string) (warning string) {
	if !pins.EndWithNamespace(directory) {
		return ""
	}
	return fmt.Sprintf("pin-directory: %s is on a BPF file system of this mount namespace alone, as each command of `ip netns exec` has one: "+
		"when the daemon is killed, all pins are lost, and packets are not forwarded; start it by `nsenter --net=/run/netns/NAME loci run` instead", directory)
}

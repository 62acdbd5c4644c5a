// SPDX-License-Identifier: Apache-2.0

// This file removes an instance whose process is gone, whatever version of Loci left
// it: by names alone, without a look into any map. It never touches an instance that
// a process uses.

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// Remove ends the forwarding of an instance in the calling thread's network namespace
// and removes its programs, pins and TAP, also those of another layout (ErrABI). Of
// the options, Instance, PinDirectory and TAP count. It is no error when nothing is
// there. ErrBusy means that a process uses the instance or the TAP; then nothing is
// removed.
func Remove(options Options) error {
	o := withDefaults(options)
	s, err := currentSpace()
	if err != nil {
		return err
	}
	pins, err := openPinsIfAny(o.PinDirectory, o.Instance)
	if err != nil {
		return errors.Join(err, s.close())
	}
	err = removeTAP(s, o.TAP)
	if errors.Is(err, ErrBusy) {
		return errors.Join(err, pins.close(), s.close())
	}
	clsact := filters{space: s, instance: o.Instance, notes: pins.disciplines()}
	return errors.Join(err, clsact.removeAll(), pins.remove(), s.close())
}

// openPinsIfAny locks the directory of an instance. Without one there is nothing to
// lock, and none is made.
func openPinsIfAny(parent, instance string) (*pinDirectory, error) {
	path := filepath.Join(parent, instance)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &pinDirectory{path: path}, nil
	}
	return openPins(parent, instance)
}

// removeTAP removes a TAP that no process uses, if there is one.
func removeTAP(s *space, name string) error {
	link, err := s.netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("TAP %s: %w", name, err)
	}
	if _, ok := link.(*netlink.Tuntap); !ok {
		return fmt.Errorf("interface %s is not a TAP: it stays", name)
	}
	// Whoever can open it is alone. Another version's may not open in our mode.
	if err := s.do(func() error { return tryTUN(name) }); errors.Is(err, ErrBusy) {
		return err
	}
	if err := s.netlink.LinkDel(link); err != nil {
		return fmt.Errorf("removing TAP %s: %w", name, err)
	}
	return nil
}

func tryTUN(name string) error {
	file, err := openTUNFile(name, vnetOctets)
	if err != nil {
		return err
	}
	return file.Close()
}

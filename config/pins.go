// SPDX-License-Identifier: Apache-2.0

package config

// The directory of what is pinned in the kernel: a BPF file system holds maps, programs
// and links, no files and no sockets, and no names with dots.

import (
	"fmt"
	"path/filepath"
	"strings"
)

// usualBPFFileSystem is where Linux has it.
const usualBPFFileSystem = "/sys/fs/bpf/"

func (c *Config) validatePins() {
	pins := filepath.Clean(c.Datapath.PinDirectory)
	if below, ok := strings.CutPrefix(pins, usualBPFFileSystem); ok && strings.Contains(below, ".") {
		c.fail("datapath.pin-directory", fmt.Sprintf("pin-directory: %s has a dot in a name, which BPF file systems refuse", pins), "want letters, digits, - and _")
	}
	paths := []struct{ path, value string }{
		{"control.socket", c.Control.Socket},
		{"map-server.state-directory", c.StateDirectory()},
		{"etr.nonce-file", c.NonceFile()},
	}
	if m := c.Datapath.MappingSocket; m != nil {
		paths = append(paths, struct{ path, value string }{"datapath.mapping-socket.path", m.Path})
	}
	if l := c.Datapath.Lispers; l != nil {
		paths = append(paths, struct{ path, value string }{"datapath.lispers.directory", l.Directory})
	}
	for _, p := range paths {
		value := filepath.Clean(p.value) + "/"
		if p.value != "" && (strings.HasPrefix(value, pins+"/") || strings.HasPrefix(value, usualBPFFileSystem)) {
			c.fail(p.path, fmt.Sprintf("%s: %s is in a BPF file system, which holds no files and no sockets", label(p.path), p.value), "want another directory, below /run or /var/lib for example")
		}
	}
}

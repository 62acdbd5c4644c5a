// SPDX-License-Identifier: Apache-2.0

// Package tun is datapath.tun of the configuration: where the descriptors of a TUN interface come from. It opens
// nothing.
package tun

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxSocketPath is how long the path of a Unix socket can be.
const maxSocketPath = 107

// Source says where the descriptors of a TUN come from, empty for one that is opened by its name.
type Source string

const (
	tunDescriptors = "fd:"
	tunSocket      = "unix:"
	// firstDescriptor is the first one behind standard input, output and error; lastDescriptor is more than anyone
	// needs.
	firstDescriptor, lastDescriptor = 3, 1 << 16
	// maxDescriptors are as many queues.
	maxDescriptors = 16
)

var errTUN = errors.New("want fd:NUMBER or unix:PATH, fd:3 or unix:/run/tun.sock for example")

// UnmarshalText reads fd:3, fd:3,4 for several queues, or unix:/path.
func (t *Source) UnmarshalText(text []byte) error {
	read := Source(text)
	if path := read.Socket(); path != "" {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not an absolute path: want unix: and a path that begins with /", path)
		}
		if len(path) > maxSocketPath {
			return fmt.Errorf("the path has %d octets: Linux allows %d for a socket",
				len(path), maxSocketPath)
		}
		*t = read
		return nil
	}
	words, ok := strings.CutPrefix(string(text), tunDescriptors)
	if !ok {
		return fmt.Errorf("%q names no descriptor and no socket: %w", text, errTUN)
	}
	list := strings.Split(words, ",")
	for i, word := range list {
		n, err := strconv.Atoi(word)
		isDescriptor := err == nil && word == strconv.Itoa(n) && n >= firstDescriptor && n <= lastDescriptor
		if !isDescriptor || slices.Contains(list[:i], word) || i == maxDescriptors {
			return fmt.Errorf("%q: want at most %d different descriptors from %d on, fd:3,4 for example",
				text, maxDescriptors, firstDescriptor)
		}
	}
	*t = read
	return nil
}

// MarshalText is the text that was read.
func (t Source) MarshalText() ([]byte, error) { return []byte(t), nil }

// String is the text that was read.
func (t Source) String() string { return string(t) }

// Descriptors are those that the daemon inherits, one for each queue.
func (t Source) Descriptors() (list []int) {
	words, ok := strings.CutPrefix(string(t), tunDescriptors)
	if !ok {
		return nil
	}
	for word := range strings.SplitSeq(words, ",") {
		n, _ := strconv.Atoi(word) // it was checked
		list = append(list, n)
	}
	return list
}

// Socket is the path of the Unix socket.
func (t Source) Socket() string {
	path, _ := strings.CutPrefix(string(t), tunSocket)
	if len(path) == len(t) {
		return ""
	}
	return path
}

// SPDX-License-Identifier: Apache-2.0

package config

// Problems of a configuration at the place of the value, for the checks here and for the daemon.

import (
	"loci/config/source"
)

func (c *Config) fail(path, message, hint string) { c.source.Fail(path, message, hint) }

func (c *Config) warn(path, message, hint string) { c.source.Warn(path, message, hint) }

// Position is where a value stands, or the nearest section around it where the
// file left the value to its default. The path is given by keys and indexes:
// Position("etr", "local-eids", 0, "eid").
func (c *Config) Position(path ...any) source.Position {
	return c.source.PositionOf(source.PathOf(path))
}

// Problem tells about a value that turned out wrong later, as an error with the
// position of the value: an interface that does not exist, for example. The
// message says what is wrong and what to do; the path is that of Position.
func (c *Config) Problem(message string, path ...any) source.Problem {
	return c.source.ProblemAt(source.PathOf(path), message, "")
}

// firstTwice finds the first item that stood before.
func firstTwice[T comparable](list []T) (int, bool) {
	seen := make(map[T]bool, len(list))
	for i, item := range list {
		if seen[item] {
			return i, true
		}
		seen[item] = true
	}
	return 0, false
}

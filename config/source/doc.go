// SPDX-License-Identifier: Apache-2.0

// Package source is a configuration file as text: its YAML read into a tree of nodes with
// their places, and the problems found in it, each told with file, line, column and what to
// do about it.
//
// Reading is strict. What a reader of the file could take for something else is refused:
// tabs, typographic quotes, anchors and aliases, a key that stands twice, a second document.
// Nesting and the number of problems are bounded, so that a hostile file costs little.
//
// A problem may show its line of the file. Where the line may hold a secret, every word is
// left out that is not a key of the model. The package opens no file and knows no key; who
// reads a file says which words are keys.
package source

// SPDX-License-Identifier: Apache-2.0

package config

// Reading a configuration: the text, then the tree, then the model, then what
// the values mean together. A file with any problem gives no Config.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Parse reads a configuration. The name stands in messages. The error is
// *Problems and names everything that is wrong. Files that the configuration
// names are not opened: Load does that.
func Parse(name string, b []byte) (*Config, error) {
	s := read(name, b)
	c := s.model()
	if c == nil {
		return nil, s.result()
	}
	return s.finish(c)
}

// Load reads a configuration file and the key files that it names. Paths of key
// files are relative to the directory of the file. An error is *Problems.
func Load(path string) (*Config, error) {
	text, mode, err := readFile(path, maxFileOctets)
	if err != nil {
		s := newSource(path, "")
		s.failAt(place{}, "", err.Error(), "")
		return nil, s.result()
	}
	s := read(path, text)
	c := s.model()
	if c == nil {
		return nil, s.result()
	}
	c.loadKeyFiles(filepath.Dir(path))
	if mode.Perm()&0o077 != 0 && c.hasLiteralSecret() {
		s.warn("", fmt.Sprintf("others can read this file (mode %04o) and it holds keys", mode.Perm()), "chmod 600, or put the keys into files of their own (auth-key-file)")
	}
	return s.finish(c)
}

// read takes the text into a source; problems with the text itself are in it.
func read(name string, b []byte) *source {
	if len(b) > maxFileOctets {
		s := newSource(name, "")
		s.failAt(place{}, "", fmt.Sprintf("the file has more than %d octets", maxFileOctets), "that is the limit of a configuration")
		return s
	}
	s := newSource(name, strings.ReplaceAll(string(b), "\r\n", "\n"))
	s.checkText()
	return s
}

// model reads the source's text into the model; nil when there is a problem that
// leaves nothing to check.
func (s *source) model() *Config {
	if len(s.problems) > 0 {
		return nil
	}
	root := parseTree(s, strings.Join(s.lines, "\n"))
	if root == nil {
		return nil
	}
	c := &Config{source: s}
	decoder{s}.value(root, reflect.ValueOf(c).Elem(), "", "")
	return c
}

// finish checks what the values mean together and gives the result. Problems of
// single values come first: the checks need right ones.
func (s *source) finish(c *Config) (*Config, error) {
	if len(s.problems) == 0 {
		c.validate()
	}
	if err := s.result(); err != nil {
		return nil, err
	}
	sortProblems(s.warnings)
	c.Warnings = s.warnings
	return c, nil
}

// readFile reads a file and its mode, bounded.
func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	return text, info.Mode(), err
}

// Position is where a value stands, or the nearest section around it where the
// file left the value to its default. The path is given by keys and indexes:
// Position("etr", "local-eids", 0, "eid").
func (c *Config) Position(path ...any) Position {
	at := c.source.find(pathOf(path))
	return Position{File: c.source.name, Line: at.line, Column: at.column}
}

// Problem tells about a value that turned out wrong later, as an error with the
// position of the value: an interface that does not exist, for example. The
// message says what is wrong and what to do; the path is that of Position.
func (c *Config) Problem(message string, path ...any) Problem {
	at := pathOf(path)
	return c.source.problem(c.source.find(at), at, message, "")
}

// pathOf writes keys and indexes as etr.local-eids[0].eid.
func pathOf(path []any) string {
	text := ""
	for _, step := range path {
		if index, ok := step.(int); ok {
			text += fmt.Sprintf("[%d]", index)
		} else {
			text = join(text, fmt.Sprint(step))
		}
	}
	return text
}

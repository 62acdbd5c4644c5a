// SPDX-License-Identifier: Apache-2.0

package config

// Reading a configuration: the text, then the tree, then the model, then what
// the values mean together. A file with any problem gives no Config.

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"loci/config/codec"
	"loci/config/source"
)

// maxFileOctets bounds a configuration: as many sites fit as there may be, with 300 octets each.
const maxFileOctets = 32 << 20

// Parse reads a configuration. The name stands in messages. The error is
// *Problems and names everything that is wrong. Files that the configuration
// names are not opened: Load does that.
func Parse(name string, b []byte) (*Config, error) {
	s := read(name, b)
	c := model(s)
	if c == nil {
		return nil, s.Result()
	}
	return finish(s, c)
}

// ParseLocatorSets reads the locator-sets of a configuration, or of a part of one: what the values mean together is not
// checked. The error is *Problems.
func ParseLocatorSets(name string, b []byte) (map[string][]Locator, error) {
	s := read(name, b)
	c := model(s)
	if err := s.Result(); err != nil || c == nil {
		return nil, err
	}
	return c.LocatorSets, nil
}

// Load reads a configuration file and the key files that it names. Paths of key
// files are relative to the directory of the file. An error is *Problems.
func Load(path string) (*Config, error) {
	text, mode, err := readFile(path, maxFileOctets)
	if err != nil {
		s := source.New(path, "", nil)
		s.FailAt(source.Place{}, "", err.Error(), "")
		return nil, s.Result()
	}
	s := read(path, text)
	c := model(s)
	if c == nil {
		return nil, s.Result()
	}
	c.loadKeyFiles(filepath.Dir(path))
	if mode.Perm()&0o077 != 0 && c.hasLiteralSecret() {
		s.Warn("", fmt.Sprintf("others can read this file (mode %04o) and it holds keys", mode.Perm()), "chmod 600, or put the keys into files of their own (auth-key-file)")
	}
	return finish(s, c)
}

// LoadAnyway is Load for what ends a daemon, or asks one: of a file with mistakes it takes what can be read of the sections control and
// datapath, and their defaults for the rest. It never fails, and what it gives never runs.
func LoadAnyway(path string) *Config {
	if c, err := Load(path); err == nil {
		return c
	}
	text, _, _ := readFile(path, maxFileOctets)
	if c := model(read(path, text)); c != nil {
		return c.ends()
	}
	c := &Config{}
	c.setDefaults()
	for name, section := range sectionsOf(string(text)) {
		part := model(read(path, []byte(section)))
		switch {
		case part == nil:
		case name == "datapath":
			c.Datapath = part.Datapath
		case name == "control":
			c.Control = part.Control
		}
	}
	return c
}

// ends is the configuration without all that an end does not need.
func (c *Config) ends() *Config { return &Config{Control: c.Control, Datapath: c.Datapath} }

// sectionsOf cuts a text at the lines that begin with a key, whatever stands between them.
func sectionsOf(text string) map[string]string {
	sections, name := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, ":"); ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz-") == "" {
			name = key
		}
		sections[name] += line
	}
	return sections
}

// read takes the text into a source; problems with the text itself are in it.
func read(name string, b []byte) *source.File {
	if len(b) > maxFileOctets {
		s := source.New(name, "", nil)
		s.FailAt(source.Place{}, "", fmt.Sprintf("the file has more than %d octets", maxFileOctets), "that is the limit of a configuration")
		return s
	}
	return source.New(name, strings.ReplaceAll(string(b), "\r\n", "\n"), knownKeys())
}

// model reads the source's text into the model; nil when there is a problem that
// leaves nothing to check.
func model(s *source.File) *Config {
	root := s.Tree()
	if root == nil {
		return nil
	}
	c := &Config{source: s}
	c.addresses = codec.Decode(s, modelKeys, root, c)
	return c
}

// finish checks what the values mean together and gives the result. Problems of
// single values come first: the checks need right ones.
func finish(s *source.File, c *Config) (*Config, error) {
	if !s.Failed() {
		c.validate()
	}
	if err := s.Result(); err != nil {
		return nil, err
	}
	c.Warnings = s.Warnings()
	return c, nil
}

// MarshalJSON writes the effective configuration with the keys of the file, their words joined by underscores, and lengths of
// time in seconds.
func (c *Config) MarshalJSON() ([]byte, error) {
	return codec.JSON(codec.Encode(reflect.ValueOf(c))), nil
}

// YAMLSet is YAML without the keys that have their defaults.
func (c *Config) YAMLSet() []byte { return codec.YAML(modelKeys.EncodeSet(reflect.ValueOf(c))) }

// JSONSet is MarshalJSON without the keys that have their defaults.
func (c *Config) JSONSet() []byte { return codec.JSON(modelKeys.EncodeSet(reflect.ValueOf(c))) }

// YAML writes the effective configuration as a file.
func (c *Config) YAML() []byte {
	return codec.YAML(codec.Encode(reflect.ValueOf(c)))
}

// SPDX-License-Identifier: Apache-2.0

package config

// Keys in files of their own: the only files that this package opens besides the
// configuration itself.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"loci/config/codec"
)

// placedKey is a key with the path it stands at.
type placedKey struct {
	*Key
	path string
}

// keys lists every key of the configuration.
func (c *Config) keys() []placedKey {
	var list []placedKey
	add := func(path string, keys []Key) {
		for i := range keys {
			list = append(list, placedKey{&keys[i], fmt.Sprintf("%s.authentication-keys[%d]", path, i)})
		}
	}
	if c.ETR != nil {
		for i, m := range c.ETR.MapServers {
			add(fmt.Sprintf("etr.map-servers[%d]", i), m.Keys)
		}
	}
	if c.MapServer != nil {
		for i, s := range c.MapServer.Sites {
			add(fmt.Sprintf("map-server.sites[%d]", i), s.Keys)
		}
		for i, r := range c.MapServer.RTRs {
			add(fmt.Sprintf("map-server.rtrs[%d]", i), r.Keys)
		}
	}
	if c.RTR != nil && c.RTR.NATTraversal != nil {
		for i, m := range c.RTR.NATTraversal.MapServers {
			add(fmt.Sprintf("rtr.nat-traversal.map-servers[%d]", i), m.Keys)
		}
	}
	return list
}

func (c *Config) hasLiteralSecret() bool {
	for _, k := range c.keys() {
		if k.File == "" {
			return true
		}
	}
	return false
}

// loadKeyFiles reads the files that keys stand in. One file may hold the key of
// many sites' rotation, so each is read once.
func (c *Config) loadKeyFiles(directory string) {
	read := map[string]Secret{}
	for _, k := range c.keys() {
		if k.File == "" || !k.Value.IsZero() {
			continue // validate tells about both
		}
		path := k.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(directory, path)
		}
		secret, known := read[path]
		if !known {
			secret = c.loadKeyFile(path, k.path+".auth-key-file")
			read[path] = secret
		}
		k.Value = secret
	}
}

func (c *Config) loadKeyFile(file, path string) (secret Secret) {
	text, mode, err := readFile(file, maxSecretOctets+1)
	if err != nil {
		c.source.Fail(path, "auth-key-file: "+reason(file, err), "want a file that holds the key alone")
		return Secret{}
	}
	if mode.Perm()&0o077 != 0 {
		c.source.Warn(path, fmt.Sprintf("others can read the key file %s (mode %04o)", file, mode.Perm()), "chmod 600 "+file)
	}
	key := strings.TrimRight(string(text), "\r\n")
	if strings.ContainsAny(key, "\r\n") {
		c.source.Fail(path, fmt.Sprintf("auth-key-file: %s has more than one line", file), "want a file that holds the key alone")
		return Secret{}
	}
	if err := secret.UnmarshalText([]byte(key)); err != nil {
		message, hint := codec.SplitError(err)
		c.source.Fail(path, fmt.Sprintf("auth-key-file: %s: %s", file, message), hint)
	}
	return secret
}

// reason is an error about a file without the name of the system call.
func reason(file string, err error) string {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Path + ": " + failed.Err.Error()
	}
	return err.Error()
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

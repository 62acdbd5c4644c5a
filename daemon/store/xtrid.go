// SPDX-License-Identifier: Apache-2.0

package store

// The xTR-ID of a router behind a NAT that has none in its configuration. It outlives restarts: an RTR takes a router
// with another one for another router.

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// XTRID is the xTR-ID in a file, or a random one, which the file has from then on. It is random where the file cannot
// be written as well.
func XTRID(path string, random func([]byte)) (id [16]byte, err error) {
	text, err := os.ReadFile(path)
	if text = bytes.TrimSpace(text); err == nil && len(text) == hex.EncodedLen(len(id)) {
		if _, err := hex.Decode(id[:], text); err == nil && id != [16]byte{} {
			return id, nil
		}
	}
	random(id[:])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%x\n", id), 0o600); err != nil {
		return id, err
	}
	return id, os.Rename(temporary, path)
}

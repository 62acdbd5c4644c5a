// SPDX-License-Identifier: Apache-2.0

package lispers

// Keys of LISP-crypto (RFC 8061), as either end keeps them. Nothing here encrypts,
// decrypts or shows a key.

import (
	"slices"

	"loci/dataplane"
	"loci/lisp"
)

// maxKeyed bounds the RLOCs with keys, in each direction.
const maxKeyed = 4096

type keyring struct {
	encryption map[lisp.RLOC][]Key
	decryption map[peerPort][]Key
}

// encrypt keeps the keys of packets to an RLOC; none removes them.
func (k *keyring) encrypt(to lisp.RLOC, keys []Key) error {
	if k.encryption == nil {
		k.encryption = map[lisp.RLOC][]Key{}
	}
	return keep(k.encryption, to, keys)
}

// decrypt keeps the keys of packets from an RLOC; none removes them.
func (k *keyring) decrypt(from peerPort, keys []Key) error {
	if k.decryption == nil {
		k.decryption = map[peerPort][]Key{}
	}
	return keep(k.decryption, from, keys)
}

func keep[K comparable](table map[K][]Key, of K, keys []Key) error {
	if len(keys) == 0 {
		delete(table, of)
		return nil
	}
	if _, replaces := table[of]; !replaces && len(table) >= maxKeyed {
		return dataplane.ErrFull
	}
	table[of] = slices.Clone(keys)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package daemon

// Unpredictable octets for nonces (RFC 9301 s.5.2), from the system's generator, each used once.

import "crypto/rand"

// random feeds a Node's nonces from the system's generator, which never fails, for many of them at once: after a rest, to ask it for eight
// octets takes as long as to encode the message that they are for. It belongs to the holder of the event loop's lock.
type random struct {
	octets [512]byte
	left   int // of them, the last ones
}

// read fills b with octets that were not used before, and keeps no copy.
func (r *random) read(b []byte) {
	for len(b) > 0 {
		if r.left == 0 {
			_, _ = rand.Read(r.octets[:])
			r.left = len(r.octets)
		}
		given := r.octets[len(r.octets)-r.left:]
		n := copy(b, given)
		clear(given[:n])
		b, r.left = b[n:], r.left-n
	}
}

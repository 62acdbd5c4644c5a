// SPDX-License-Identifier: Apache-2.0

package control

// Inspect: from bytes to an authenticated message (RFC 9301 s.5). Pure.

import "net/netip"

// Received is a control message that was parsed and, where its type carries
// authentication data, authenticated.
type Received struct{ local, from netip.AddrPort }

// Refusal is why a packet went no further.
type Refusal struct {
	Reason Counter
	From   netip.AddrPort
	Err    error // what exactly was wrong
}

// Inspect parses and authenticates one packet of the control port. It may run
// anywhere, at any time.
func Inspect(keys *Keyring, local, from netip.AddrPort, b []byte) (Received, *Refusal) {
	return Received{}, nil
}

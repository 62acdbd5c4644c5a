// SPDX-License-Identifier: Apache-2.0

package message

// Why a packet went no further.

import (
	"fmt"
	"net/netip"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// Refusal is why a packet went no further.
type Refusal struct {
	Reason counter.Counter
	Type   wire.MessageType // of the message, 0 when there was none
	From   netip.AddrPort
	Err    error // what exactly was wrong

	Site    string      // of a Map-Register that did not authenticate, or has EID-Prefixes of no site
	Prefix  lisp.Prefix // of that one: an EID-Prefix in it
	KeyFits bool        // that one authenticates with the site's key
}

// Error says what was refused from whom.
func (r *Refusal) Error() string {
	return r.Type.String() + " from " + r.From.String() + ": " + r.Err.Error()
}

// Refuse makes a Refusal.
func Refuse(reason counter.Counter, format string, arguments ...any) *Refusal {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, arguments...)}
}

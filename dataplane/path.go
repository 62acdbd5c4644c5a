// SPDX-License-Identifier: Apache-2.0

// What an engine tells of the paths to locators (RFC 9300 s.7.2, s.10.1). It never sends anything to find out.

package dataplane

import (
	"iter"
	"time"

	"loci/lisp"
)

// PathReporter is an engine that can tell what the paths to locators carry.
type PathReporter interface {
	// PathMTU returns the octets of the largest packet to an RLOC, outer headers counted
	// in; learnt says that ICMP told so, rather than the route (RFC 9300 s.7.2). 0 is for
	// an RLOC without a route.
	PathMTU(rloc lisp.RLOC) (octets int, learnt bool)
}

// EchoReporter is an engine that can tell how Echo-Nonce goes with locators (RFC 9300 s.10.1).
type EchoReporter interface {
	// EchoNonce returns what became of the nonces sent to an RLOC. The zero value is for
	// one that was asked for no echo.
	EchoNonce(rloc lisp.RLOC) EchoState
}

// EchoState is Echo-Nonce towards one RLOC. Times are zero for what never happened.
type EchoState struct {
	AskedAt   time.Time // when an echo was last asked for
	EchoedAt  time.Time // when one last came back
	MissingAt time.Time // when packets last came from there without the echo for too long
}

// Fails reports whether the last word about the path is that an echo did not come.
func (s EchoState) Fails() bool { return s.MissingAt.After(s.EchoedAt) }

// SourceReporter is an engine that can tell from which RLOCs packets come: silence is a reason to
// ask whether a locator is still there (RFC 9300 s.10).
type SourceReporter interface {
	// Sources yields the outer sources of packets that were decapsulated lately, of a bounded
	// number of them, in no order, with the time of the last packet: exact to a quarter of a second. Of
	// packets between more addresses than the engine keeps decisions about it may know samples.
	Sources() iter.Seq2[lisp.RLOC, time.Time]
}

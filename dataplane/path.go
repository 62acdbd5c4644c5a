// SPDX-License-Identifier: Apache-2.0

// What an engine tells of the paths to locators (RFC 9300 s.7.2). It never sends anything to find out.

package dataplane

import "loci/lisp"

// PathReporter is an engine that can tell what the paths to locators carry.
type PathReporter interface {
	// PathMTU returns the octets of the largest packet to an RLOC, outer headers counted
	// in; learnt says that ICMP told so, rather than the route (RFC 9300 s.7.2). 0 is for
	// an RLOC without a route.
	PathMTU(rloc lisp.RLOC) (octets int, learnt bool)
}

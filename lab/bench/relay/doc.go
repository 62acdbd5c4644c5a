// SPDX-License-Identifier: Apache-2.0

// Package relay is `loci bench relay`: a chain of source, ITR, RTR, ETR and sink beside plain routing, chained VXLAN tunnels and bare
// XDP redirects over the same hops; and what an explicit locator path costs the RTR, and bindings of nodes behind NATs.
package relay

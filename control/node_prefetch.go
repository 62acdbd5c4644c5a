// SPDX-License-Identifier: Apache-2.0

package control

// Memory that the next messages need, fetched before they are handled.

import (
	"loci/control/internal/message"
)

// Prefetch begins to look up what a message will need. Call it for the messages of a batch, then
// HandleReceived or HandleRefusal for each, the first of which ends it: until then they must stay
// as they are. It has no effect but on how long those take.
func (n *Node) Prefetch(r Received) {
	if m, ok := r.Message.(*message.MapRequest); ok && n.mapServer != nil && m.ECM != nil && len(m.Prefixes) == 1 {
		n.mapServer.Registrations.Prefetch(m)
	}
}

// finishPrefetch makes use of what was prefetched, if anything was.
func (n *Node) finishPrefetch() {
	if n.mapServer != nil && len(n.mapServer.Registrations.Awaited) > 0 {
		n.mapServer.Registrations.FinishPrefetch()
	}
}

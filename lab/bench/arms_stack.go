// SPDX-License-Identifier: Apache-2.0

// The arm of `forwarding: stack`: Loci's programs at tc, and between them the routing of each router.

package bench

import "context"

const armTCStack = "loci tc, stack"

var lociTCStack = arm{name: armTCStack, key: "stack", build: buildLociStack, hops: 1, outer: outerOctets}

// buildLociStack runs daemons like those of buildLoci. Packets of other sites leave by loci0, where the daemon's own rules
// lead what has no route.
func buildLociStack(ctx context.Context, b *bench, l *line) error {
	return buildLociAt(ctx, b, l, "hook: tc, forwarding: stack")
}

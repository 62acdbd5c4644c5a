// SPDX-License-Identifier: Apache-2.0

// The arm of `forwarding: stack`: Loci's programs at tc, and between them the routing of each router.

package testbed

import "context"

// ArmTCStack is the name of LociTCStack in reports.
const ArmTCStack = "loci tc, stack"

// LociTCStack is Loci at the tc hooks with `forwarding: stack`.
var LociTCStack = Arm{Name: ArmTCStack, Key: "stack", Build: buildLociStack, Hops: 1, Outer: outerOctets}

// buildLociStack runs daemons like those of buildLoci. Packets of other sites leave by loci0, where the daemon's own rules
// lead what has no route.
func buildLociStack(ctx context.Context, b *Run, l *Line) error {
	return buildLociAt(ctx, b, l, "hook: tc, forwarding: stack")
}

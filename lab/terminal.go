// SPDX-License-Identifier: Apache-2.0

package lab

// A run whose terminal or reader goes away.

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SurviveTerminal lets a run live long enough to remove its network when its terminal hangs up, which interrupts it, or when
// its reader goes away (`loci demo | head`), which would otherwise kill it on the next line.
func SurviveTerminal(ctx context.Context) (context.Context, func()) {
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE) // writes then return an error, which the progress ignores
	if signal.Ignored(syscall.SIGHUP) {        // nohup
		return ctx, func() { signal.Stop(brokenPipe) }
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	return ctx, func() { stop(); signal.Stop(brokenPipe) }
}

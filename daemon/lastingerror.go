// SPDX-License-Identifier: Apache-2.0

package daemon

// Errors of work that is tried again and again. One that is over soon, as while an interface is made anew, is for debugging
// alone; one that lasts is logged once, and when it is over.

import (
	"log/slog"
	"time"
)

// lastingError is that of one thing that is tried again and again.
type lastingError struct {
	log   *slog.Logger
	what  string
	after time.Duration // shorter ones are for debugging alone
	since time.Time     // of the first failure in a row
	told  string        // what was logged
}

// tell takes the outcome of an attempt.
func (l *lastingError) tell(now time.Time, err error) {
	if err == nil {
		if l.told != "" {
			l.log.Info("over: " + l.what)
		}
		l.since, l.told = time.Time{}, ""
		return
	}
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) < l.after || err.Error() == l.told {
		l.log.Debug(l.what, "error", err)
		return
	}
	l.told = err.Error()
	l.log.Error(l.what, "error", err)
}

// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"testing"

	"loci/daemon/api"
)

// TestLevelThatWasSetStays through a reload that does not change logging.level, and no longer.
func TestLevelThatWasSetStays(t *testing.T) {
	var l logLevel
	for _, step := range []struct {
		what string
		do   func()
		want api.LogLevel
	}{
		{"at the start", func() { l.configure("info") }, api.LogLevel{Level: "info", Configured: "info"}},
		{"set", func() { l.set("debug") }, api.LogLevel{Level: "debug", Configured: "info"}},
		{"a reload of something else", func() { l.configure("info") }, api.LogLevel{Level: "debug", Configured: "info"}},
		{"a reload of the level", func() { l.configure("warn") }, api.LogLevel{Level: "warn", Configured: "warn"}},
		{"set again", func() { l.set("error") }, api.LogLevel{Level: "error", Configured: "warn"}},
		{"given up", func() { l.set(api.LogLevelConfigured) }, api.LogLevel{Level: "warn", Configured: "warn"}},
	} {
		step.do()
		if got := l.document(); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
	}
	if l.Level() != slog.LevelWarn {
		t.Errorf("lines of %s are logged", l.Level())
	}
}

// SPDX-License-Identifier: Apache-2.0

package daemon

// The level of the log: that of the configuration, or one that was set at run time. The latter stays until the daemon ends,
// it is given up, or a reload changes logging.level: a reload of something else does not end a hunt for a fault.

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"loci/daemon/api"
)

// logLevel is a slog.Leveler.
type logLevel struct {
	inForce    slog.LevelVar
	mu         sync.Mutex
	configured string
}

// Level implements slog.Leveler.
func (l *logLevel) Level() slog.Level { return l.inForce.Level() }

// configure takes the level of a configuration, which was checked. One that was set stays where it is the same as before.
func (l *logLevel) configure(level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level != l.configured {
		l.configured = level
		_ = l.inForce.UnmarshalText([]byte(level))
	}
}

// set takes one of api.LogLevels.
func (l *logLevel) set(level string) api.LogLevel {
	l.mu.Lock()
	if level == api.LogLevelConfigured {
		level = l.configured
	}
	_ = l.inForce.UnmarshalText([]byte(level))
	l.mu.Unlock()
	return l.document()
}

var logLevelWords = map[slog.Level]string{slog.LevelDebug: "debug", slog.LevelInfo: "info", slog.LevelWarn: "warn", slog.LevelError: "error"}

func (l *logLevel) document() api.LogLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	return api.LogLevel{Level: logLevelWords[l.Level()], Configured: l.configured}
}

// LogLevel answers `loci log-level`.
func (a answerer) LogLevel(context.Context) (api.LogLevel, error) {
	return a.d.logLevel.document(), nil
}

// SetLogLevel changes it, and says so at a level that the log has before or after.
func (a answerer) SetLogLevel(_ context.Context, level string) (api.LogLevel, error) {
	was := a.d.logLevel.document().Level
	now := a.d.logLevel.set(level)
	if now.Level != was {
		a.d.log.Log(context.Background(), max(a.d.logLevel.Level(), slog.LevelInfo), "log level changed", "from", was, "to", now.Level)
		a.d.events.Publish(api.Event{At: time.Now(), Kind: "log-level-changed", Fields: map[string]string{"from": was, "to": now.Level}})
	}
	return now, nil
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The level of the log.

// LogLevel is the least level of lines that the log has: debug, info, warn or error.
type LogLevel struct {
	Level      string `json:"level"`
	Configured string `json:"configured"` // logging.level
}

// LogLevels are what the level may be set to; the last is that of the configuration.
var LogLevels = []string{"debug", "info", "warn", "error", LogLevelConfigured}

// LogLevelConfigured ends what was set at run time.
const LogLevelConfigured = "configured"

// LogLevel asks for the level of the log.
func (c *Client) LogLevel(ctx context.Context) (l LogLevel, err error) {
	return l, c.get(ctx, PathLogLevel, &l)
}

// SetLogLevel changes the level of the log until the daemon ends, or a reload changes logging.level.
func (c *Client) SetLogLevel(ctx context.Context, level string) (l LogLevel, err error) {
	return l, c.do(ctx, http.MethodPost, PathLogLevel+"?"+url.Values{"level": {level}}.Encode(), &l)
}

// ParseLogLevel reads the query of SetLogLevel.
func ParseLogLevel(v url.Values) (string, error) {
	if err := checkKnown(v, "level"); err != nil {
		return "", err
	}
	return v.Get("level"), CheckLogLevel(v.Get("level"))
}

// CheckLogLevel refuses what is none of LogLevels.
func CheckLogLevel(level string) error {
	if !slices.Contains(LogLevels, level) {
		return fmt.Errorf("level: %q is not known: want %s", level, strings.Join(LogLevels, ", "))
	}
	return nil
}

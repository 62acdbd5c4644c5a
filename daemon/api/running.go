// SPDX-License-Identifier: Apache-2.0

package api

// The configuration that is in force, and the level of the log.

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

const (
	// PathRunningConfig is where RunningConfig is asked for.
	PathRunningConfig = "/v1/running-config"
	// PathLogLevel is where LogLevel is asked for (GET), and changed (POST).
	PathLogLevel = "/v1/log-level"
)

// RunningConfig is the configuration in force: what was read at the start or by the last reload that changed something.
// Secrets are masked.
type RunningConfig struct {
	File     string         `json:"file"`     // that it was read from, and that may have changed since
	Defaults bool           `json:"defaults"` // whether keys with default values are there as well
	YAML     string         `json:"yaml"`     // as a file
	Config   map[string]any `json:"config"`   // the same with JSON's spelling
}

// LogLevel is the least level of lines that the log has: debug, info, warn or error.
type LogLevel struct {
	Level      string `json:"level"`
	Configured string `json:"configured"` // logging.level
}

// LogLevels are what the level may be set to; the last is that of the configuration.
var LogLevels = []string{"debug", "info", "warn", "error", LogLevelConfigured}

// LogLevelConfigured ends what was set at run time.
const LogLevelConfigured = "configured"

// RunningConfig asks for the configuration in force, with all defaults or without.
func (c *Client) RunningConfig(ctx context.Context, defaults bool) (r RunningConfig, err error) {
	return r, c.get(ctx, fmt.Sprintf("%s?defaults=%t", PathRunningConfig, defaults), &r)
}

// LogLevel asks for the level of the log.
func (c *Client) LogLevel(ctx context.Context) (l LogLevel, err error) {
	return l, c.get(ctx, PathLogLevel, &l)
}

// SetLogLevel changes the level of the log until the daemon ends, or a reload changes logging.level.
func (c *Client) SetLogLevel(ctx context.Context, level string) (l LogLevel, err error) {
	return l, c.do(ctx, http.MethodPost, PathLogLevel+"?"+url.Values{"level": {level}}.Encode(), &l)
}

// ParseDefaults reads the query of RunningConfig.
func ParseDefaults(v url.Values) (bool, error) {
	if err := checkKnown(v, "defaults"); err != nil {
		return false, err
	}
	return parseBool(v, "defaults")
}

// ParseLogLevel reads the query of SetLogLevel.
func ParseLogLevel(v url.Values) (string, error) {
	if err := checkKnown(v, "level"); err != nil {
		return "", err
	}
	return v.Get("level"), CheckLogLevel(v.Get("level"))
}

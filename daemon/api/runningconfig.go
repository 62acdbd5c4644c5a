// SPDX-License-Identifier: Apache-2.0

package api

// What `loci show running-config` tells.

import (
	"context"
	"fmt"
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

// RunningConfig asks for the configuration in force, with all defaults or without.
func (c *Client) RunningConfig(ctx context.Context, defaults bool) (r RunningConfig, err error) {
	return r, c.get(ctx, fmt.Sprintf("%s?defaults=%t", PathRunningConfig, defaults), &r)
}

// ParseDefaults reads the query of RunningConfig.
func ParseDefaults(v url.Values) (bool, error) {
	if err := checkKnown(v, "defaults"); err != nil {
		return false, err
	}
	return parseBool(v, "defaults")
}

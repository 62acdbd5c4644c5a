// SPDX-License-Identifier: Apache-2.0

package answers

// The configuration in force.

import (
	"context"
	"encoding/json"

	"loci/daemon/api"
)

// RunningConfig answers `loci show running-config`.
func (a *Answers) RunningConfig(_ context.Context, defaults bool) (api.RunningConfig, error) {
	c := a.State.InForce().Config
	told := api.RunningConfig{File: a.ConfigFile, Defaults: defaults, YAML: string(c.YAMLSet())}
	text := c.JSONSet()
	if defaults {
		var err error
		told.YAML = string(c.YAML())
		if text, err = c.MarshalJSON(); err != nil {
			return api.RunningConfig{}, err
		}
	}
	return told, json.Unmarshal(text, &told.Config)
}

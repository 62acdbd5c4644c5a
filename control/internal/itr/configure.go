// SPDX-License-Identifier: Apache-2.0

package itr

// Another configuration, and what of the map-cache it changes.

import (
	"reflect"

	"loci/control/internal/settings"
)

// Configure takes over another configuration and brings the static mappings into
// line with it.
func (r *ITR) Configure(c *settings.ITRConfig, static StaticChange, begins bool) {
	changed := Sweep{
		Reinstall:  !reflect.DeepEqual(r.config.LocatorPolicies, c.LocatorPolicies) || !r.config.ProxyETRs.Equal(c.ProxyETRs),
		reschedule: r.config.IdleTimeout != c.IdleTimeout,
	}
	r.config, r.Cache.config = c, c
	r.Requester.Resolvers.configure(c.MapResolvers)
	if r.Cache.Size() > 0 && (changed.Reinstall || changed.reschedule) {
		r.Sweeps.Start(changed)
	}
	r.Prober.Configure(c.RLOCProbing)
	r.Statics.configure(static, c.StaticMappings, begins)
}

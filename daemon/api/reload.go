// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
)

// What `loci reload` tells.

// Reload tells what reading the configuration again changed.
type Reload struct {
	Changes []string `json:"changes"`
	// MapServers are those that had not acknowledged all of this router's EID-Prefixes when the answer was given.
	MapServers []MapServer `json:"map_servers"`
}

// Reload makes the daemon read its configuration file again. A file with an
// error changes nothing and is told in the error.
func (c *Client) Reload(ctx context.Context) (r Reload, err error) {
	return r, c.do(ctx, http.MethodPost, PathReload, &r)
}

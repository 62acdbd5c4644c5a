// SPDX-License-Identifier: Apache-2.0

//go:build nometrics

package metrics

// What a build without metrics has in their place: it serves nothing, and refuses addresses.

import (
	"context"
	"errors"
	"log/slog"

	"loci/config"
)

// Present says whether this build serves metrics.
const Present = false

// ErrAbsent says that this build serves none.
var ErrAbsent = errors.New("metrics.listen: this build of loci has no metrics (loci version): remove the key, or use another build")

// Server serves nothing.
type Server struct{}

// New makes a server of nothing.
func New(*slog.Logger) *Server { return &Server{} }

// Start does nothing.
func (*Server) Start(Source) {}

// Prepare refuses addresses.
func (*Server) Prepare(c config.Metrics) (Change, error) {
	if len(c.Listen) > 0 {
		return Change{}, ErrAbsent
	}
	return Change{}, nil
}

// Run does nothing.
func (*Server) Run(context.Context) {}

// Change changes nothing.
type Change struct{}

// Make does nothing.
func (Change) Make() {}

// Drop does nothing.
func (Change) Drop() {}

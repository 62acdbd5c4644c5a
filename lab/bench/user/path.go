// SPDX-License-Identifier: Apache-2.0

package user

// When a path works.

import (
	"context"
	"fmt"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

const (
	pathWait = 20 * time.Second
	pingWait = 100 * time.Millisecond
)

// awaitPath waits until a ping from Src to Dst is answered.
func awaitPath(ctx context.Context, l *testbed.Line, p testbed.Pair) error {
	limited, cancel := context.WithTimeout(ctx, pathWait)
	defer cancel()
	for {
		result, err := testnet.Ping{Namespace: l.Src, Source: p.Source(), Destination: p.Destination(), Timeout: pingWait}.Run(limited)
		if err == nil && result.Received > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if limited.Err() != nil {
			return fmt.Errorf("no ping from Src to Dst is answered (%s)", p.Name)
		}
	}
}

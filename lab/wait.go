// SPDX-License-Identifier: Apache-2.0

// Waiting that ends with its context.

package lab

import (
	"context"
	"time"
)

// Sleep waits for so long, or until ctx ends, whose error it returns then.
func Sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

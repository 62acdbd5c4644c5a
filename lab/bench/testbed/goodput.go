// SPDX-License-Identifier: Apache-2.0

package testbed

// TCP flows side by side.

import (
	"context"
	"errors"
	"time"

	"loci/internal/testnet"
)

// Goodput runs so many transfers at once, each for that long, and returns what arrived in bit/s, of all together.
func Goodput(ctx context.Context, transfer testnet.TCP, flows int, length time.Duration) (rate float64, err error) {
	type finished struct {
		result testnet.TCPResult
		err    error
	}
	transfer.Duration = length
	all := make(chan finished, flows)
	for range flows {
		go func() {
			result, err := transfer.Run(ctx)
			all <- finished{result, err}
		}()
	}
	for range flows {
		f := <-all
		rate += f.result.BitsPerSecond
		err = errors.Join(err, f.err)
	}
	return rate, err
}

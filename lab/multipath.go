// SPDX-License-Identifier: Apache-2.0

package lab

// Subflows of Multipath TCP (RFC 8684): `ip mptcp` sets up Linux's path manager.

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"loci/internal/testnet"
)

// MPTCP runs `ip mptcp` in a node (ip-mptcp(8)).
func MPTCP(ctx context.Context, at *testnet.Namespace, arguments ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "ip", append([]string{"mptcp"}, arguments...)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := at.Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("ip mptcp %s: %w: %s", strings.Join(arguments, " "), err,
			bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"loci/internal/testnet"
)

func TestPreflightErrorNamesEverything(t *testing.T) {
	err := &PreflightError{Purpose: "run the demo", Problems: []testnet.Problem{{What: "no root", Do: "become root"}, {What: "no veth", Do: "modprobe veth"}}}
	for _, want := range []string{"cannot run the demo", "no root", "become root", "no veth", "modprobe veth"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named", want)
		}
	}
	if ExitStatus(err) != ExitPreflight || ExitStatus(nil) != ExitWorked || ExitStatus(fmt.Errorf("x: %w", ErrInterrupted)) != ExitInterrupted || ExitStatus(errors.New("x")) != ExitFailed ||
		ExitStatus(fmt.Errorf("x: %w", &UsageError{Err: errors.New("y")})) != ExitUsage || ExitStatus(fmt.Errorf("removing %w", ErrNeedsRoot)) != ExitRefused {
		t.Error("an exit status is wrong")
	}
}

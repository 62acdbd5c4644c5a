// SPDX-License-Identifier: Apache-2.0

//go:build nolispnat

package lispnat

// What a build without LISP-NAT has in its place.

import (
	"context"
	"errors"
	"log/slog"

	"loci/internal/wakeup"
)

// Included reports whether this build has LISP-NAT.
const Included = false

var errAbsent = errors.New("this build has no LISP-NAT (loci version)")

type counts struct{ sessions, unsolicited uint64 }

func (*Spec) read() (bool, []counts, error) { return false, nil, errAbsent }

func (*Spec) install() error { return errAbsent }

func remove(string) error { return nil }

func (*Spec) sessions(uint8, func(Session) bool) error { return errAbsent }

func watch(ctx context.Context, _ wakeup.Signal, _ *slog.Logger) { <-ctx.Done() }

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hearing is written to until it has heard a text.
type hearing struct {
	mu    sync.Mutex
	text  bytes.Buffer
	want  string
	heard func()
}

func (h *hearing) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(b)
	if strings.Contains(h.text.String(), h.want) {
		h.heard()
	}
	return len(b), nil
}

// TestSilentDaemonIsTold: who asks a daemon that does not answer is told so while he waits, by every command that asks.
func TestSilentDaemonIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	silent, err := net.Listen("unix", path) // no process accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, arguments := range [][]string{{"show", "status"}, {"reload"}, {"lig", "self"}} {
		t.Run(arguments[0], func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			told := &hearing{want: fmt.Sprintf("the daemon at %s has not answered for 3s", path), heard: stop}
			root := newRootCommand()
			root.SetErr(told)
			root.SetArgs(append(arguments, "--socket", path))
			began := time.Now()
			if err := root.ExecuteContext(ctx); err == nil || ctx.Err() == nil {
				t.Errorf("%v, told %q after %s", err, told.text.String(), time.Since(began))
			}
		})
	}
}

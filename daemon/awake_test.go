// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStayAwake(t *testing.T) {
	device := filepath.Join(t.TempDir(), "latency")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	release := stayAwake(device, slog.New(slog.DiscardHandler))()
	if written, err := os.ReadFile(device); err != nil || !bytes.Equal(written, []byte{0, 0, 0, 0}) {
		t.Errorf("the device is told % x, %v; want a latency of 0", written, err)
	}
	release()
}

// Who may not ask goes on without, and says so once.
func TestStayAwakeWithoutTheDevice(t *testing.T) {
	var said strings.Builder
	keep := stayAwake(filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})))
	keep()()
	keep()()
	if strings.Count(said.String(), "processors sleep") != 1 {
		t.Errorf("said: %q", said.String())
	}
}

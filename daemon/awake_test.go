// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// The processors are kept awake from a miss on, once for all that follow each other, and sleep when none comes any more.
func TestVigilAfterMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var awake atomic.Bool // a timer of the vigil's ends it
		asked := 0
		v := vigil{keep: func() func() {
			asked++
			awake.Store(true)
			return func() { awake.Store(false) }
		}}
		for range 3 {
			v.miss(time.Now())
			time.Sleep(missVigil - time.Millisecond)
			synctest.Wait()
			if !awake.Load() || asked != 1 {
				t.Errorf("after a miss: awake %v, asked %d times; want awake, asked once", awake.Load(), asked)
			}
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if awake.Load() {
			t.Error("the processors are still kept awake")
		}
		if v.miss(time.Now()); !awake.Load() || asked != 2 {
			t.Errorf("after another miss: awake %v, asked %d times; want awake, asked twice", awake.Load(), asked)
		}
		time.Sleep(2 * missVigil)
	})
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

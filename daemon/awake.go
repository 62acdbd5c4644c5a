// SPDX-License-Identifier: Apache-2.0

package daemon

// Keeping the processors from sleeping while packets wait for a mapping, and as long as the
// mapping socket's server asks for it: a request to Linux' power management (Documentation/power/pm_qos_interface.rst) that
// nothing may take time to wake. Idle processors then wait awake, where the machine has
// a cpuidle driver, and are woken without an interrupt. The kernel takes the request
// back when this process ends, however it does.

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"loci/config"
)

// latencyDevice takes requests for as long as it is open.
const latencyDevice = "/dev/cpu_dma_latency"

// stayAwake returns a function that keeps the processors awake until its result is called,
// as far as this process may.
func stayAwake(device string, log *slog.Logger) func() (release func()) {
	var once sync.Once
	return func() func() {
		f, err := requestLatency(device)
		if err != nil {
			once.Do(func() { log.Debug("processors sleep between requests", "error", err) })
			return func() {}
		}
		return func() { _ = f.Close() } // there is nobody to tell
	}
}

// requestLatency asks for none, in microseconds as the 32-bit number that the device takes.
func requestLatency(device string) (*os.File, error) {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(make([]byte, 4)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// stayAwake is nil where processors shall sleep whenever they can.
func (d *daemon) stayAwake(c *config.Datapath) func() (release func()) {
	if c.PowerSave {
		return nil
	}
	return stayAwake(latencyDevice, d.log)
}

// missVigil is how long the processors stay awake after a miss: most Map-Replies come
// within that, and where misses follow each other, so does the next one.
const missVigil = 50 * time.Millisecond

// vigil keeps the processors awake for a while after each miss.
type vigil struct {
	keep func() (release func()) // nil: never

	mu      sync.Mutex
	until   time.Time
	release func() // nil when nothing is kept
	timer   *time.Timer
}

// miss keeps them awake for missVigil from now on.
func (v *vigil) miss(now time.Time) {
	if v.keep == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.until = now.Add(missVigil)
	if v.release == nil {
		v.release = v.keep()
		v.timer = time.AfterFunc(missVigil, v.look)
	}
}

// look ends the vigil unless another miss came meanwhile.
func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if left := time.Until(v.until); left > 0 {
		v.timer.Reset(left)
		return
	}
	v.release()
	v.release = nil
}

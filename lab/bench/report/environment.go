// SPDX-License-Identifier: Apache-2.0

// The machine and the software that figures were measured on. It never names the host.

package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Environment is what somebody else must have to get the same figures.
type Environment struct {
	Kernel       string  `json:"kernel"`
	Architecture string  `json:"architecture"`
	CPU          string  `json:"cpu"`
	Cores        int     `json:"cores"`
	Memory       uint64  `json:"memory_octets"`
	Loci         string  `json:"loci"`
	Go           string  `json:"go"`
	LoadAtStart  float64 `json:"load_at_start"` // of the last minute; above 0.5 the figures mean little
	Date         string  `json:"date"`          // UTC

	// StolenPercent is what a hypervisor gave of the processors' time to others while the bench ran. Above 1, the figures mean
	// little, those of delays least.
	StolenPercent float64 `json:"stolen_percent"`
}

// EnvironmentOf describes this machine, for a version of Loci.
func EnvironmentOf(version string, now time.Time) Environment {
	e := Environment{
		Architecture: runtime.GOARCH, CPU: cpuModel(), Cores: runtime.NumCPU(), Loci: version, Go: runtime.Version(),
		Date: now.UTC().Format("2006-01-02"),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		e.Memory = uint64(info.Totalram) * uint64(info.Unit)
		e.LoadAtStart = float64(info.Loads[0]) / (1 << 16)
	}
	return e
}

// timeShare is what time all processors had so far, in ticks, and what of it a hypervisor gave to others; both are 0 when unknown.
type timeShare struct{ all, stolen float64 }

// timeColumns of a line of /proc/stat add up to all there was; the last is what was stolen. Those behind are part of others.
const timeColumns = 8

// TimeShareNow reads /proc/stat.
func TimeShareNow() (t timeShare) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	fields := strings.Fields(strings.SplitN(string(stat), "\n", 2)[0])
	if len(fields) <= timeColumns {
		return t
	}
	for _, field := range fields[1 : timeColumns+1] {
		t.stolen, _ = strconv.ParseFloat(field, 64) // 0 for anything but a number
		t.all += t.stolen
	}
	return t
}

// StolenPercent is the part of the time since then that was stolen.
func (t timeShare) StolenPercent(now timeShare) float64 {
	if now.all <= t.all {
		return 0
	}
	return 100 * (now.stolen - t.stolen) / (now.all - t.all)
}

func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// String is one line for people.
func (e Environment) String() string {
	line := fmt.Sprintf("%s, %d cores, Linux %s, Loci %s, load %.2f at the start", e.CPU, e.Cores, e.Kernel, e.Loci, e.LoadAtStart)
	if e.StolenPercent > 0 {
		line += fmt.Sprintf(", %.1f %% of the processors' time stolen", e.StolenPercent)
	}
	return line
}

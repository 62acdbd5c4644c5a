// SPDX-License-Identifier: Apache-2.0

// The machine and the software that figures were measured on. It never names the host.

package bench

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
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
}

func environment(version string, now time.Time) Environment {
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
	return fmt.Sprintf("%s, %d cores, Linux %s, Loci %s, load %.2f at the start", e.CPU, e.Cores, e.Kernel, e.Loci, e.LoadAtStart)
}

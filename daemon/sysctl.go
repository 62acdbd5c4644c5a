// SPDX-License-Identifier: Apache-2.0

package daemon

// The few kernel settings that the data plane needs, on loopback and on the LISP
// interface alone. Whether this host forwards between its other interfaces stays
// the operator's decision.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// sysctlRoot is where the settings of this network namespace are.
const sysctlRoot = "/proc/sys/net/"

// neededSysctls lists what has to be set, for a LISP interface. The route to an
// RLOC is looked up as if the packet came in by lo, that to a site's host as if it
// came in by the LISP interface, and the kernel answers only where it forwards.
// Loose reverse path filtering (RFC 3704) on the LISP interface believes packets
// from remote EIDs also where the main table has a default route.
func neededSysctls(link string) map[string]string {
	return map[string]string{
		"ipv4/conf/" + loopbackName + "/forwarding": "1",
		"ipv6/conf/" + loopbackName + "/forwarding": "1",
		"ipv4/conf/" + link + "/forwarding":         "1",
		"ipv6/conf/" + link + "/forwarding":         "1",
		"ipv4/conf/" + link + "/rp_filter":          "2",
	}
}

// setSysctls writes what differs. A family that the system lacks needs nothing.
func setSysctls(link string) error {
	var errs []error
	for name, value := range neededSysctls(link) {
		if err := setSysctl(name, value); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func setSysctl(name, value string) error {
	present, err := os.ReadFile(sysctlRoot + name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(present)) == value {
		return nil
	}
	if err := os.WriteFile(sysctlRoot+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting net.%s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	return nil
}

// restoreSysctls gives loopback back what all interfaces have. The LISP interface
// takes its own settings along when it goes.
func restoreSysctls() error {
	var errs []error
	for _, family := range []string{"ipv4", "ipv6"} {
		all, err := os.ReadFile(sysctlRoot + family + "/conf/all/forwarding")
		if err != nil {
			continue
		}
		errs = append(errs, setSysctl(family+"/conf/"+loopbackName+"/forwarding", strings.TrimSpace(string(all))))
	}
	return errors.Join(errs...)
}

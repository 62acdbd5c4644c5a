// SPDX-License-Identifier: Apache-2.0

package policyroute

// The few kernel settings that the data plane needs, on loopback and on the LISP
// interface alone. Whether this host forwards between its other interfaces stays
// the operator's decision.

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"loci/config"
	"loci/daemon/hostnet"
)

// neededSysctls lists what has to be set, for a LISP interface. The route to an
// RLOC is looked up as if the packet came in by lo, that to a site's host as if it
// came in by the LISP interface, and the kernel answers only where it forwards.
// Loose reverse path filtering (RFC 3704) on the LISP interface believes packets
// from remote EIDs also where the main table has a default route. What this host sent itself comes back by it from an
// engine that gives packets back.
func neededSysctls(link string, givenBack bool) map[string]string {
	needed := map[string]string{
		"ipv4/conf/" + link + "/forwarding": "1",
		"ipv6/conf/" + link + "/forwarding": "1",
		"ipv4/conf/" + link + "/rp_filter":  "2",
	}
	if givenBack { // by an engine that asks for no routes itself
		needed["ipv4/conf/"+link+"/accept_local"] = "1"
		return needed
	}
	needed["ipv4/conf/"+hostnet.LoopbackName+"/forwarding"] = "1"
	needed["ipv6/conf/"+hostnet.LoopbackName+"/forwarding"] = "1"
	return needed
}

// setSysctls writes the settings that differ and notes what lo had before. What cannot be set, as
// on a read-only /proc/sys, is a warning: everything else is still forwarded.
func (r Policy) setSysctls() (warnings []string) {
	needed, link, notes := neededSysctls(r.link, r.arrivals.wanted), r.link, r.notes
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		present, err := os.ReadFile(hostnet.SysctlRoot + name)
		if err != nil || strings.TrimSpace(string(present)) == needed[name] {
			continue // a family that the system lacks needs nothing
		}
		if err := setSysctl(name, needed[name]); err != nil {
			warnings = append(warnings, fmt.Sprintf("%v: it is %s and should be %s, or packets that need it are dropped: sysctl -w net/%s=%s",
				err, strings.TrimSpace(string(present)), needed[name], name, needed[name]))
			continue
		}
		if !strings.Contains(name, "/"+link+"/") { // the LISP interface takes its settings along
			_ = os.MkdirAll(filepath.Join(notes, noteOf(name)), 0o700)
		}
	}
	return warnings
}

func setSysctl(name, value string) error {
	if err := os.WriteFile(hostnet.SysctlRoot+name, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting net.%s: %w", strings.ReplaceAll(name, "/", "."), err)
	}
	return nil
}

// notesDirectory is where it stands which settings were changed: directories, because a
// BPF file system has no files. It is beside the instance's, and goes when put back.
func notesDirectory(d config.Datapath) string {
	return filepath.Join(d.PinDirectory, "sysctl-"+strings.ReplaceAll(d.Interface, ".", "-"))
}

// noteOf names a setting without dots and slashes, which a BPF file system refuses.
func noteOf(name string) string { return strings.ReplaceAll(name, "/", "-") }

// restoreSysctls gives loopback back what it had, where this program changed it: no
// forwarding. Unless all interfaces forward now, which includes lo.
func restoreSysctls(notes string) error {
	var errs []error
	for _, family := range []string{"ipv4", "ipv6"} {
		name := family + "/conf/" + hostnet.LoopbackName + "/forwarding"
		if os.Remove(filepath.Join(notes, noteOf(name))) != nil {
			continue // nothing was changed
		}
		all, err := os.ReadFile(hostnet.SysctlRoot + family + "/conf/all/forwarding")
		if err == nil && strings.TrimSpace(string(all)) == "0" {
			errs = append(errs, setSysctl(name, "0"))
		}
	}
	_ = os.Remove(notes)
	_ = os.Remove(filepath.Dir(notes)) // refused while others are in it
	return errors.Join(errs...)
}

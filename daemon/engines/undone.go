// SPDX-License-Identifier: Apache-2.0

package engines

// What the data plane in user space does not do of a configuration: all that reaches it comes by one TUN, which tells
// neither interface nor VLAN, and the host's stack forwards before and behind it.

import (
	"errors"
	"fmt"

	"loci/config"
	"loci/daemon/lispnat"
)

// undone says what keeps a configuration from user space; nil: nothing.
func undone(of *config.Config) error {
	var problems []error
	add := func(i int, key, message string) {
		problems = append(problems, of.Problem(message, "interfaces", "site", i, key))
	}
	for i, site := range of.Interfaces.Site {
		if site.VLAN != 0 {
			add(i, "vlan", fmt.Sprintf("vlan: the data plane in user space sees no VLAN tags: make an interface of VLAN %d, and name that", site.VLAN))
		}
		if first := of.Interfaces.Site[0]; site.InstanceID != first.InstanceID {
			add(i, "instance-id", fmt.Sprintf("instance-id: the data plane in user space has one Instance-ID for all interfaces to the site, which %s has as %d: want that one, or datapath.engine kernel",
				first.Interface, first.InstanceID))
		}
	}
	return errors.Join(problems...)
}

// idle warns of keys that have no effect in user space.
func idle(of *config.Config) (warnings []string) {
	add := func(hook config.Hook, at ...any) {
		if hook != config.HookAuto {
			warnings = append(warnings, of.Problem(fmt.Sprintf("hook: %s has no effect: the data plane in user space has no programs at interfaces", hook), at...).Error())
		}
	}
	for i, site := range of.Interfaces.Site {
		add(site.Hook, "interfaces", "site", i, "hook")
	}
	for i, core := range of.Interfaces.Core {
		add(core.Hook, "interfaces", "core", i, "hook")
	}
	return warnings
}

// LISPNAT reports whether this build has LISP-NAT.
const LISPNAT = lispnat.Included

// untranslated says that this build does not do what a configuration asks for; nil: it does.
func untranslated(of *config.Config) error {
	if lispnat.Included || of.ITR == nil || len(of.ITR.LISPNAT) == 0 {
		return nil
	}
	return of.Problem("lisp-nat: this build has no LISP-NAT (loci version): remove the key, or use another build", "itr", "lisp-nat")
}

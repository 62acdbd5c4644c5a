// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package kernelplane

// A warning to those who filter forwarded packets and let Loci forward beside their
// filters.

import (
	"fmt"
	"strings"

	"loci/config"
	"loci/dataplane/kernel/features"
)

// SkippedRules warns when this host has rules for forwarded packets that the
// configuration's interfaces pass by (`forwarding: fast`). It looks at the network
// namespace of the calling thread; nil also when the host does not tell, such as to
// those who are not root.
func (Engine) SkippedRules(c *config.Config) []string {
	fast := fastInterfaces(c)
	if len(fast) == 0 || !c.UsesDataPlane() {
		return nil
	}
	rules, err := features.ForwardRules()
	if err != nil || len(rules) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("this host has rules for forwarded packets (%s) that LISP packets of %s pass by: `forwarding: stack` lets them apply",
		strings.Join(rules, ", "), strings.Join(fast, ", "))}
}

// fastInterfaces are those whose packets the stack does not see.
func fastInterfaces(c *config.Config) []string {
	var names []string
	for _, site := range c.Interfaces.Site {
		if site.Forwarding == config.ForwardingFast {
			names = append(names, site.Interface.String())
		}
	}
	for _, core := range c.Interfaces.Core {
		if core.Forwarding == config.ForwardingFast {
			names = append(names, core.Interface.String())
		}
	}
	return names
}

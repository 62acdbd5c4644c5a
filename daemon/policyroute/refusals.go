// SPDX-License-Identifier: Apache-2.0

package policyroute

// Routes and rules of ours that the kernel refuses: warnings for the log and for `loci show
// status`, which stand until the kernel takes them. None of them keeps another from being
// in force.

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"

	"loci/daemon/hostnet"
)

// maxRefusals bounds the warnings that are told one by one.
const maxRefusals = 64

// refusals is a list of warnings, each once.
type refusals struct {
	list      []string
	more      int // those beyond
	forbidden int // how many of all are about what this process may not do
}

// forbids reports whether an error says that this process may not change rules and routes (CAP_NET_ADMIN): then others do, by the
// command, which the warning names.
func (r *refusals) forbids(err error, command string) bool {
	if !errors.Is(err, syscall.EPERM) {
		return false
	}
	r.forbidden++
	r.add("rules and routes are not as they should be, and this process may not change them (CAP_NET_ADMIN): " + command)
	return true
}

func (r *refusals) add(warning string) {
	switch {
	case slices.Contains(r.list, warning):
	case len(r.list) == maxRefusals:
		r.more++
	default:
		r.list = append(r.list, warning)
	}
}

// route adds a route that the kernel did not take. That a gateway is stale is told already, by hostnet.View.StaleGateways where it is a
// default route's; all other routes by such a gateway are one warning.
func (r *refusals) route(k routeKey, view hostnet.View, err error) {
	name := linkName(k.link)
	link, _ := view.Link(name)
	unreachable := k.gateway.IsValid() && (errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH))
	switch {
	case unreachable && slices.Contains(link.Stale, k.gateway):
	case unreachable:
		r.add(fmt.Sprintf("no network of %s has the gateway %s: Loci does not use the routes by it (%v)", name, k.gateway, err))
	default:
		r.add(fmt.Sprintf("the route to %s by %s is not in force in table %d: %v", k.destination, name, k.table, err))
	}
}

func (r *refusals) warnings() []string {
	if r.more == 0 {
		return r.list
	}
	return append(r.list, fmt.Sprintf("%d more routes and rules are not as they should be", r.more))
}

// err is all of them as an error, nil for none, and where this process may change nothing: it made nothing then.
func (r *refusals) err() error {
	if r.forbidden > 0 {
		return nil
	}
	var errs []error
	for _, w := range r.warnings() {
		errs = append(errs, errors.New(w))
	}
	return errors.Join(errs...)
}

// linkName is an interface's name by its index.
func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}

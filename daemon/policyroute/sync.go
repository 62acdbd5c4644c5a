// SPDX-License-Identifier: Apache-2.0

package policyroute

// Bringing the kernel's rules and routes into line with what should be there. All of
// ours carry one protocol number, so that a start finds what an earlier run left,
// whatever numbers it had in its configuration, and a detach removes it all. What has
// another number is never touched.

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
)

// apply makes the kernel's state what r says and touches nothing else. A setting, route or
// rule that the kernel refuses is a warning: all others are made. Without policy rules no route is made either: a
// kernel that cannot have rules may have a single table, which is the host's own.
func (r Policy) apply() (warnings []string, err error) {
	var refused refusals
	if err := r.putAddresses(&refused); err != nil {
		return nil, err
	}
	rules, routes, err := r.wanted()
	if err != nil {
		return nil, err
	}
	present, err := r.ownRules()
	if errors.Is(err, hostnet.ErrNoRules) {
		return append(r.setSysctls(), r.withoutRules(err)), nil
	}
	if err != nil {
		return nil, err
	}
	// Routes first: a rule to an empty table would send packets on to the next rule.
	stale, err := r.addRoutes(routes, &refused)
	if r.additive {
		stale = nil
	}
	err = errors.Join(err, r.applyRules(present, rules, &refused), r.deleteRoutes(stale, &refused))
	return append(r.setSysctls(), refused.warnings()...), err
}

// withoutRules says what is amiss where the kernel has no rules.
func (r Policy) withoutRules(reason error) string {
	which := "packets that this host sends itself from EIDs"
	if r.arrivals.wanted {
		which = "packets of EIDs"
	}
	return fmt.Sprintf("%v: %s are not encapsulated unless routes of the host lead them into %s", reason, which, r.link)
}

// Remove deletes every rule and route of ours and puts settings back.
func (r Policy) Remove() error {
	r.additive, r.mobile = false, mobileNode{}
	var refused refusals
	addressesErr := r.putAddresses(&refused)
	if errors.As(addressesErr, &netlink.LinkNotFoundError{}) {
		addressesErr = nil
	}
	present, err := r.ownRules()
	if errors.Is(err, hostnet.ErrNoRules) { // then nothing else was made
		return errors.Join(addressesErr, refused.err(), restoreSysctls(r.notes))
	}
	stale, routesErr := r.ownRoutes()
	err = errors.Join(err, addressesErr, routesErr, r.applyRules(present, nil, &refused), r.deleteRoutes(stale, &refused))
	return errors.Join(err, refused.err(), restoreSysctls(r.notes))
}

// ownRoutes lists the routes of ours in all tables.
func (r Policy) ownRoutes() ([]routeKey, error) {
	var keys []routeKey
	for _, family := range ipFamilies {
		filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Protocol: netlink.RouteProtocol(r.protocol)}
		routes, err := hostnet.Dump(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return nil, fmt.Errorf("routes of protocol %d: %w", r.protocol, err)
		}
		for _, route := range routes {
			keys = append(keys, routeKeyOf(family, route))
		}
	}
	return keys, nil
}

// addRoutes adds or replaces what is missing and returns what is not wanted. What a refused route of EIDs should have
// replaced stays: without any route their packets would leave unencapsulated.
func (r Policy) addRoutes(wanted []routeKey, refused *refusals) (stale []routeKey, err error) {
	present, err := r.ownRoutes()
	if err != nil {
		return nil, err
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	defer handle.Close()
	keep := map[routeKey]bool{}
	for _, key := range without(wanted, present) {
		if err := handle.RouteReplace(key.route(r.protocol)); err != nil {
			if !refused.forbids(err, key.command("replace", r.protocol)) {
				refused.route(key, r.sources.view, err)
			}
			keep[placeOf(key)] = key.table == r.table
		}
	}
	return slices.DeleteFunc(without(present, wanted), func(key routeKey) bool { return keep[placeOf(key)] }), nil
}

// deleteRoutes ignores those that a replacement or an interface took along.
func (r Policy) deleteRoutes(stale []routeKey, refused *refusals) error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer handle.Close()
	for _, key := range stale {
		if err := handle.RouteDel(key.route(r.protocol)); err != nil && !errors.Is(err, syscall.ESRCH) && !refused.forbids(err, key.command("del", r.protocol)) {
			refused.add(fmt.Sprintf("the route to %s stays in table %d, where it should not be: %v", key.destination, key.table, err))
		}
	}
	return nil
}

// applyRules adds what is missing first, so that no packet of an EID slips out
// by another route in between, then deletes what is ours and not wanted.
func (r Policy) applyRules(present, wanted []ruleKey, refused *refusals) error {
	for _, key := range without(wanted, present) {
		if err := key.change(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r.protocol); err != nil && !errors.Is(err, syscall.EEXIST) && !refused.forbids(err, key.command("add", r.protocol)) {
			refused.add(fmt.Sprintf("the policy rule %s is not in force: %v", key, err))
		}
	}
	if r.additive {
		return nil
	}
	for _, key := range without(present, wanted) {
		if err := key.change(unix.RTM_DELRULE, 0, r.protocol); err != nil && !errors.Is(err, syscall.ENOENT) && !refused.forbids(err, key.command("del", r.protocol)) {
			refused.add(fmt.Sprintf("the policy rule %s stays, though it should not: %v", key, err))
		}
	}
	return nil
}

// without returns what the first list has and the second has not.
func without[T comparable](list, others []T) (rest []T) {
	known := make(map[T]struct{}, len(others))
	for _, key := range others {
		known[key] = struct{}{}
	}
	for _, key := range list {
		if _, ok := known[key]; !ok {
			rest = append(rest, key)
		}
	}
	return rest
}

func (r Policy) ownRules() ([]ruleKey, error) {
	var keys []ruleKey
	list := hostnet.Rules
	if r.listRules != nil {
		list = r.listRules
	}
	for _, family := range ipFamilies {
		rules, err := list(family)
		if err != nil {
			return nil, fmt.Errorf("policy rules: %w", err)
		}
		for _, rule := range rules {
			if int(rule.Protocol) == r.protocol {
				keys = append(keys, ruleKeyOf(family, rule))
			}
		}
	}
	return keys, nil
}

// SPDX-License-Identifier: Apache-2.0

package config

// What happens to packets that no mapping covers (RFC 9300 s.4 leaves the choice
// open): for all Instance-IDs, for single ones, and what becomes of packets that the
// data plane hands to the control plane.

import (
	"cmp"
	"fmt"
	"net/netip"

	"loci/config/codec"
	"loci/lisp"
)

// MissPolicy says what happens to a packet that no mapping covers.
type MissPolicy string

// The policies.
const (
	MissQueue           MissPolicy = "queue"
	MissDrop            MissPolicy = "drop"
	MissNativelyForward MissPolicy = "natively-forward"
	MissHandOver        MissPolicy = "hand-over" // to the control plane
)

// InstancePolicy is the policy of one Instance-ID.
type InstancePolicy struct {
	InstanceID lisp.InstanceID `key:"instance-id" required:"true"`
	MissPolicy MissPolicy      `key:"miss-policy" required:"true" oneof:"queue,drop,natively-forward,hand-over"`
}

// MissForm says what listeners at the mapping socket are told of a packet that misses.
type MissForm string

// The forms.
const (
	MissFormEID    MissForm = "eid"
	MissFormHeader MissForm = "header"
	MissFormPacket MissForm = "packet"
)

// HandedTo says where the control plane sends what it was handed.
type HandedTo string

// The ways.
const (
	HandedToMapping   HandedTo = "mapping"    // kept, and sent to the locators once they are known
	HandedToProxy     HandedTo = "proxy"      // at once to a Proxy-ETR or RTR
	HandedToDataProbe HandedTo = "data-probe" // at once, the EID as RLOC (RFC 6830 s.3)
)

// HandOver configures what becomes of packets by the policy hand-over.
type HandOver struct {
	To    HandedTo   `key:"to" oneof:"mapping,proxy,data-probe"`
	Proxy netip.Addr `key:"proxy"` // with HandedToProxy, and only then
}

// validateMisses compares what belongs together.
func validateMisses(c *Config) {
	itr := c.ITR
	hands := itr.MissPolicy == MissHandOver
	seen := map[lisp.InstanceID]bool{}
	for i, p := range itr.MissPolicies {
		hands = hands || p.MissPolicy == MissHandOver
		if seen[p.InstanceID] {
			c.fail(fmt.Sprintf("itr.miss-policies[%d].instance-id", i), fmt.Sprintf("instance-id: %s has a policy already", p.InstanceID), "give each Instance-ID one")
		}
		seen[p.InstanceID] = true
	}
	switch proxy := itr.HandOver.Proxy; {
	case itr.HandOver.To == HandedToProxy && !proxy.IsValid():
		c.fail("itr.hand-over.to", "to: proxy, but there is none", "add proxy: the RLOC of a Proxy-ETR or RTR")
	case itr.HandOver.To != HandedToProxy && proxy.IsValid():
		c.fail("itr.hand-over.proxy", fmt.Sprintf("proxy: %s is not used, because packets go to %s", proxy, itr.HandOver.To), "set to: proxy, or remove it")
	case itr.HandOver.To != HandedToMapping && !hands:
		c.warn("itr.hand-over.to", fmt.Sprintf("to: %s has no effect: no miss-policy is hand-over", itr.HandOver.To), "choose that policy, or remove hand-over")
	}
	validateHandOverProxy(c)
	if hands && c.Datapath.Lispers != nil {
		c.warn("itr", "hand-over is queue with datapath.lispers: lispers.net's interface carries no packets", "use a mapping socket to hand packets over")
	}
}

func validateHandOverProxy(c *Config) {
	const path = "itr.hand-over.proxy"
	proxy := c.ITR.HandOver.Proxy
	if !proxy.IsValid() {
		return
	}
	if message, hint := codec.SplitError(codec.CheckHostAddress(proxy)); message != "" || proxy.IsLoopback() {
		c.fail(path, fmt.Sprintf("proxy: %s is not the RLOC of another router", proxy), cmp.Or(hint, "want a global IPv4 or IPv6 address"))
	}
	if own, ok := c.ownPrefixOf(proxy); ok {
		c.fail(path, fmt.Sprintf("proxy: %s is inside the site's own EID-Prefix %s", proxy, own), "want an RLOC")
	}
}

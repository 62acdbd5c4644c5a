// SPDX-License-Identifier: Apache-2.0

package plan

// The policies of a configuration reach the control plane, and what the file leaves
// out is what the control plane has of its own.

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
)

func TestPolicyDefaultsAreTheControlPlanes(t *testing.T) {
	p, err := planOf(t, planHead+"etr: {local-eids: [{instance-id: 7, eid: 10.1.0.0/24}]}\nmap-server:\n  sites: [{name: a, authentication-keys: [{auth-key-value: some-secret}], eid-prefixes: [{eid: 10.0.0.0/8}]}]\n")
	if err != nil {
		t.Fatal(err)
	}
	limits := control.DefaultLimits()
	limits.MapCacheEntries = p.Config.ITR.MapCache.Limit // the kernel sets memory aside for these
	if p.Control.Limits != limits {
		t.Errorf("limits\n%+v, want\n%+v", p.Control.Limits, limits)
	}
	if got := p.Control.ITR.RLOCProbing; got != control.DefaultProbing() {
		t.Errorf("RLOC-probing %+v", got)
	}
	if want := (control.SitePolicy{DenialTTLMinutes: 15}); !reflect.DeepEqual(p.Control.MapServer.Sites[0].Policy, want) {
		t.Errorf("policy of a site %+v", p.Control.MapServer.Sites[0].Policy)
	}
	if len(p.Control.ITR.LocatorPolicies) > 0 {
		t.Errorf("locator policies %+v", p.Control.ITR.LocatorPolicies)
	}
	// the control plane's default is the least that it takes
	p.Control.ETR.QuickRegistrationInterval--
	if p.Control.Validate() == nil {
		t.Errorf("quick registration every %s is not the least", p.Control.ETR.QuickRegistrationInterval+1)
	}
}

func TestPlanOfPolicies(t *testing.T) {
	p, err := Make(everyKey(t), everythingHost)
	if err != nil {
		t.Fatal(err)
	}
	itr, l := p.Control.ITR, p.Control.Limits
	if want := (control.ProbingConfig{Off: true, Interval: 24 * time.Hour, Retries: 5, RetriesInterval: 10 * time.Millisecond, AcceptNonAuthoritative: true}); itr.RLOCProbing != want {
		t.Errorf("RLOC-probing %+v", itr.RLOCProbing)
	}
	wantPeers := []lisp.RLOC{lisp.RLOCFromAddr(netip.MustParseAddr("198.51.100.40")),
		lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8:c::40"))}
	if !slices.Equal(itr.ProbedPeers, wantPeers) {
		t.Errorf("peers %v", itr.ProbedPeers)
	}
	unused, none, five := uint8(255), uint8(0), uint8(5)
	wantPolicies := []control.LocatorPolicy{
		{EIDs: lisp.MustParsePrefix("[7]10.64.0.0/10"), RLOCs: netip.MustParsePrefix("203.0.113.0/24"), Priority: &unused, Weight: &none},
		{RLOCs: netip.MustParsePrefix("2001:db8:c::9/128"), Weight: &five},
	}
	if !reflect.DeepEqual(itr.LocatorPolicies, wantPolicies) {
		t.Errorf("locator policies %+v", itr.LocatorPolicies)
	}
	wantSite := control.SitePolicy{
		AllowedITRs:      []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:c::/48")},
		DeniedITRs:       []netip.Prefix{netip.MustParsePrefix("192.0.2.66/32")},
		DenialTTLMinutes: 5, TemporaryDenial: true, AnswerAuthFailure: true, ProxyReplyTTLMinutes: 10, MaxRegistrations: 50,
		MapRegisters: control.Rate{PerSecond: 5, Burst: 20},
	}
	if got := p.Control.MapServer.Sites[0].Policy; !reflect.DeepEqual(got, wantSite) {
		t.Errorf("policy of a site %+v", got)
	}
	if p.Control.ETR.QuickRegistrationInterval != 30*time.Second {
		t.Errorf("quick registration every %s", p.Control.ETR.QuickRegistrationInterval)
	}
	if l.Locators != 1000 || l.SMRPeers != 500 || l.Notifications != 100 || l.ProbeReplies.Burst != 4 || l.RLOCProbes.Burst != 10 || l.SMRs.Burst != 2 {
		t.Errorf("limits %+v", l)
	}
	// every limit of the control plane has a key: none is at its default
	fields, defaults := reflect.ValueOf(l), reflect.ValueOf(control.DefaultLimits())
	for i := range fields.NumField() {
		if fields.Field(i).Interface() == defaults.Field(i).Interface() {
			t.Errorf("limit %s is not configured", fields.Type().Field(i).Name)
		}
	}
}

func TestWhatTheFileSwitchesOff(t *testing.T) {
	p, err := planOf(t, strings.Replace(planHead, "itr: {", "itr: {rloc-probing: {retries: 0, interval: 500ms}, ", 1)+"etr: {local-eids: [{instance-id: 7, eid: 10.1.0.0/24}], quick-registration-interval: 0}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := control.ProbingConfig{Interval: 500 * time.Millisecond, Retries: -1, RetriesInterval: 500 * time.Millisecond}
	if got := p.Control.ITR.RLOCProbing; got != want {
		t.Errorf("RLOC-probing %+v", got)
	}
	if got := p.Control.ETR.QuickRegistrationInterval; got >= 0 {
		t.Errorf("quick registration every %s", got)
	}
	if err := p.Control.Validate(); err != nil {
		t.Error(err)
	}
}

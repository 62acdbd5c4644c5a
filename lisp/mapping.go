// SPDX-License-Identifier: Apache-2.0

package lisp

// Mapping: an EID-Prefix and where it is reachable, or what to do with packets
// when it is not (RFC 9301 s.5.4).

import (
	"fmt"
	"math"
	"time"
)

// Action says what an ITR does with packets of a mapping without locators
// (RFC 9301 s.5.4, "ACT").
type Action uint8

// The actions of RFC 9301 s.5.4. Codes 6 and 7 are unassigned.
const (
	ActionNoAction         Action = 0
	ActionNativelyForward  Action = 1
	ActionSendMapRequest   Action = 2
	ActionDrop             Action = 3
	ActionDropPolicyDenied Action = 4
	ActionDropAuthFailure  Action = 5
)

var actionNames = [...]string{
	"no-action", "natively-forward", "send-map-request", "drop", "drop-policy-denied", "drop-auth-failure",
}

// String names the action as configuration and JSON do.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("action-%d", uint8(a))
}

// ParseAction reads the name of an assigned action.
func ParseAction(s string) (Action, error) {
	for i, name := range actionNames {
		if s == name {
			return Action(i), nil
		}
	}
	return 0, fmt.Errorf("action %q: want one of %v", s, actionNames)
}

// MarshalText is String, for JSON and YAML.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAction.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAction(string(text))
	return err
}

// TTLUnlimited in Mapping.TTLMinutes leaves the lifetime to the receiver
// (RFC 9301 s.5.4); TTL 0 removes the mapping at once.
const TTLUnlimited = math.MaxUint32

// DefaultTTLMinutes is the lifetime of a configured mapping: 24 hours.
const DefaultTTLMinutes = 1440

// MaxLifetime is the longest that a TTL counts for, a year. The 32 bits of minutes
// on the wire go up to 8171 years, which the 64 bits of nanoseconds of a Duration
// do not hold.
const MaxLifetime = 365 * 24 * time.Hour

// ttlInSeconds in a TTL says that the other bits count seconds, as lispers.net has it. In minutes it would be 4,000 years.
const ttlInSeconds = 1 << 31

// Lifetime is how long a TTL in minutes lasts, MaxLifetime at most; unlimited is the
// receiver's choice for TTLUnlimited (RFC 9301 s.5.4).
func Lifetime(ttlMinutes uint32, unlimited time.Duration) time.Duration {
	switch {
	case ttlMinutes == TTLUnlimited:
		return unlimited
	case ttlMinutes&ttlInSeconds != 0:
		return min(time.Duration(ttlMinutes&^ttlInSeconds)*time.Second, MaxLifetime)
	}
	return time.Duration(min(ttlMinutes, uint32(MaxLifetime/time.Minute))) * time.Minute
}

// TTLOf is the TTL of a record for a lifetime, in whole seconds, as lispers.net has it; 0 for less than one. Only those who are known to
// read it get such a TTL.
func TTLOf(lifetime time.Duration) uint32 {
	seconds := uint32(min(max(lifetime, 0), MaxLifetime) / time.Second)
	if seconds == 0 {
		return 0
	}
	return seconds | ttlInSeconds
}

// Mapping binds an EID-Prefix to its locators. One without locators is negative
// and its Action counts.
type Mapping struct {
	Prefix        Prefix
	Locators      LocatorSet
	TTLMinutes    uint32
	Action        Action
	Authoritative bool   // A: sent by an ETR of the site itself
	EchoNonce     bool   // E of the Map-Reply: the ETR that answers echoes nonces (RFC 9300 s.10.1)
	Version       uint16 // Map-Version, 12 bits; 0 is the Null version (RFC 9302)
}

// Negative reports whether the mapping has no locators.
func (m Mapping) Negative() bool { return len(m.Locators) == 0 }

// Equal reports whether both say the same.
func (m Mapping) Equal(o Mapping) bool {
	return m.Prefix == o.Prefix && m.TTLMinutes == o.TTLMinutes && m.Action == o.Action &&
		m.Authoritative == o.Authoritative && m.Version == o.Version && m.EchoNonce == o.EchoNonce && m.Locators.Equal(o.Locators)
}

// String is one line for logs: the prefix, then locators or the action.
func (m Mapping) String() string {
	if m.Negative() {
		return fmt.Sprintf("%s %s", m.Prefix, m.Action)
	}
	return fmt.Sprintf("%s -> %v", m.Prefix, []Locator(m.Locators))
}

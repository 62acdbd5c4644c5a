// SPDX-License-Identifier: Apache-2.0

package settings

// Proxy ETRs (RFC 6832 s.6.1): where one is configured, packets to what the mapping system
// calls a hole (Natively-Forward) are encapsulated to it instead of being sent into a core
// that may not take EIDs as sources. The map-cache keeps what the mapping system said; the
// data plane gets the proxy ETRs as its locators, with the action beside them. The
// operator's own static mappings stay as they are written. They are locators like
// others, watched by RLOC-probes (package reach).

import "loci/lisp"

// WithProxyETRs is the mapping as the data plane gets it.
func WithProxyETRs(m lisp.Mapping, static bool, proxies lisp.LocatorSet) lisp.Mapping {
	if !static && m.Negative() && m.Action == lisp.ActionNativelyForward {
		m.Locators = proxies
	}
	return m
}

// ByProxyETR reports whether a mapping of the data plane is a negative one whose packets
// go to proxy ETRs: locators never come with an action otherwise.
func ByProxyETR(m lisp.Mapping) bool {
	return !m.Negative() && m.Action == lisp.ActionNativelyForward
}

// WithoutProxyETRs is what the mapping system said of a mapping that the data plane kept.
func WithoutProxyETRs(m lisp.Mapping) lisp.Mapping {
	if ByProxyETR(m) {
		m.Locators = nil
	}
	return m
}

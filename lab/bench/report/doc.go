// SPDX-License-Identifier: Apache-2.0

// Package report is what a bench found: samples of each round, their medians and spreads, ratios of two arms round by round, and
// targets. It prints them as one JSON object, as tables for people, and as tables of a Markdown document. The keys of the JSON
// object are an interface: they are added to, not changed.
//
// It measures nothing and knows neither networks nor daemons.
package report

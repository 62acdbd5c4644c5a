// SPDX-License-Identifier: Apache-2.0

// Package report defines what the data plane reports to the Node: misses, use of map-cache entries,
// and what data packets say about locators and Map-Versions.
package report

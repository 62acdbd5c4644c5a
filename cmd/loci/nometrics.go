// SPDX-License-Identifier: Apache-2.0

//go:build nometrics

package main

// withoutMetrics names what this build leaves out: the library for metrics is large.
var withoutMetrics = []string{"metrics"}

// SPDX-License-Identifier: Apache-2.0

// Package policyroute keeps the policy rules, routes and settings of the kernel as a configuration needs them.
//
// A Policy is the list of what should be there, made from the configuration, the data plane's Database and own
// RLOCs, and a look at the host (hostnet). Sync compares the list with the kernel, adds what is missing and removes
// what is left over; everything of ours carries one protocol number, so that a restart finds it. Plane is a data
// plane with such a Policy behind it: a change of its Database or settings is followed by rules and routes.
//
// Plane has the lock, which guards the Policy, the warnings that stand, and whether rules and routes are kept or
// have ended.
package policyroute

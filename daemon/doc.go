// SPDX-License-Identifier: Apache-2.0

// Package daemon is the running program around a control.Node. It decides nothing about LISP: the Node does.
//
// Run reads a configuration, makes a plan of it (daemon/plan), and starts the parts that stand below this package:
// sockets, event loop, data plane, store, control socket. One goroutine follows the host: when interfaces, addresses or
// gateways change, the plan is made anew and the changes are applied. A reload does the same with a new configuration; a file with an
// error, or a change that needs a restart, changes nothing.
//
// The data plane of this process comes from an EngineFactory that the command gives. Control plane and data plane may
// also be two processes, joined by a mapping socket (planes.go, dataplaneonly.go).
//
// The daemon's lock, reloading, guards how many mappings the data plane was made for and what is remembered of the
// host. logLevel has one for the configured level, hostTrouble for since when a warning stands, supervisor for what
// the supervisor was told.
package daemon

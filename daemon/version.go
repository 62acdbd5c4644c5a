// SPDX-License-Identifier: Apache-2.0

package daemon

// Which build this is. The Makefile sets it when it links; nothing else does.

// Version is the version of this build.
var Version = "development"

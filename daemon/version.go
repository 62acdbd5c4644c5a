// SPDX-License-Identifier: Apache-2.0

package daemon

// Version is the version of this build; the Makefile sets it.
var Version = "development"

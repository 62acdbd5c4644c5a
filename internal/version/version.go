// SPDX-License-Identifier: Apache-2.0

// Package version is the version that this program was built as, the same for both commands of a build.
package version

// String is set by the linker (-X loci/internal/version.String=...). It is never changed at run time.
var String = "development"

// SPDX-License-Identifier: Apache-2.0

// Package upgrade takes over the maps of an older layout (abi.Version): it makes maps of this
// one beside them, and copies what is in the old ones by the names that fields have in the
// BTF that the kernel keeps with them. It never changes an old map, and has no code for a
// single version.
package upgrade

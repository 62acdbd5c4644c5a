// SPDX-License-Identifier: Apache-2.0

// Package lost remembers which EID-Prefixes had locators lately, and when those of them that the
// mapping system calls not registered are asked for again: a site whose registration expired comes
// back. When the mapping system itself comes back after a silence, all that it calls not registered
// is asked for in the same way: sites register again only then. It knows no map-cache, judges no
// use, and sends nothing.
package lost

// SPDX-License-Identifier: Apache-2.0

// Package registrar registers the ETR's Database with Map-Servers (RFC 9301 s.5.6, s.5.7, s.8.2): it packs what each
// of them is to have into Map-Registers, withdraws what left the Database, and does so anew when the configuration
// changes. Package mapregister sends them.
package registrar

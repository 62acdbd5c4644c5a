// SPDX-License-Identifier: Apache-2.0

// Package table has the containers of the control plane: rows with stable numbers, a sequence that
// grows without copying, values kept once, and EID-Prefixes with longest match. Growing never copies
// a million rows in one event-loop iteration, and rows hold no pointers. It knows no protocol.
package table

// SPDX-License-Identifier: Apache-2.0

// Package lisp holds the values of the Locator/ID Separation Protocol: EID,
// Prefix, InstanceID, RLOC, Locator, LocatorSet, Mapping and Action, with the
// text forms that configuration, logs and commands share.
//
// Values only: no I/O, no state, no wire format (package wire has that). Every
// scalar type is comparable and free of pointers, so that tables of millions of
// them cost the garbage collector nothing.
package lisp

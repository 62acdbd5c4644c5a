// SPDX-License-Identifier: Apache-2.0

// Package errorkind says of what kind an error is, for errors.Is, and leaves its text as it is.
package errorkind

type marked struct {
	error
	kind error
}

func (e *marked) Unwrap() []error { return []error{e.error, e.kind} }

// Mark is the error, of that kind too.
func Mark(err, kind error) error { return &marked{err, kind} }

// SPDX-License-Identifier: Apache-2.0

package mapsock

// Errors and their numbers: what an engine refuses, what the format refuses.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"loci/dataplane"
)

// FormatError says which field of a message is wrong, and where it stands.
type FormatError struct {
	Field   string
	Offset  int // octets from the begin of the message
	Problem string
	Errno   unix.Errno // what the sender is answered
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s at offset %d: %s", e.Field, e.Offset, e.Problem)
}

func malformed(field string, offset int, format string, args ...any) *FormatError {
	return &FormatError{Field: field, Offset: offset, Problem: fmt.Sprintf(format, args...), Errno: unix.EINVAL}
}

// Refusal is the answer to a message that was not carried out.
type Refusal struct {
	Errno  unix.Errno
	Text   string // in the words of who refused it; may be empty
	Offset int    // of the field that is wrong, when the format was; else 0
}

func (r *Refusal) Error() string {
	if r.Text == "" {
		return r.Errno.Error()
	}
	return fmt.Sprintf("%s (%s)", r.Text, unix.ErrnoName(r.Errno))
}

// Is relates a refusal to its errno and to the error of package dataplane that the
// errno stands for.
func (r *Refusal) Is(target error) bool {
	if target == error(r.Errno) {
		return true
	}
	for _, known := range errnos {
		if known.errno == r.Errno && known.err == target {
			return true
		}
	}
	return false
}

// errnos relates errors to numbers; the first that fits an error counts.
var errnos = []struct {
	err   error
	errno unix.Errno
}{
	{dataplane.ErrNotFound, unix.ESRCH},
	{dataplane.ErrUnsupported, unix.EAFNOSUPPORT},
	{dataplane.ErrNoLocalLocator, unix.EADDRNOTAVAIL},
	{dataplane.ErrFull, unix.ENOBUFS},
	{dataplane.ErrClosed, unix.ESHUTDOWN},
	{dataplane.ErrInvalid, unix.EINVAL},
	{dataplane.ErrUnsupported, unix.EOPNOTSUPP},
	{dataplane.ErrUnsupported, unix.ENOPROTOOPT},
	{dataplane.ErrInvalid, unix.EBADMSG},
}

// ErrnoOf is the number of an error; EIO when it says nothing that has one.
func ErrnoOf(err error) unix.Errno {
	var (
		number  unix.Errno
		refusal *Refusal
		format  *FormatError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &refusal):
		return refusal.Errno
	case errors.As(err, &format):
		return format.Errno
	case errors.As(err, &number):
		return number
	}
	for _, known := range errnos {
		if errors.Is(err, known.err) {
			return known.errno
		}
	}
	return unix.EIO
}

// Refusef makes a refusal; its text is formatted as by fmt.Sprintf.
func Refusef(errno unix.Errno, format string, args ...any) *Refusal {
	return &Refusal{Errno: errno, Text: fmt.Sprintf(format, args...)}
}

// SetError gives m the errno and the words of an error.
func (m *Message) SetError(err error) {
	m.Errno, m.ErrorText = ErrnoOf(err), err.Error()
	if format, ok := err.(*FormatError); ok {
		m.ErrorOffset = uint32(format.Offset)
	}
	if told, ok := err.(*Refusal); ok {
		m.ErrorText = told.Text
	}
	m.Mark(AttributeError)
}

func atMost(value, limit uint32) error {
	if value > limit {
		return fmt.Errorf("%#x is not known", value)
	}
	return nil
}

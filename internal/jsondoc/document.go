// SPDX-License-Identifier: Apache-2.0

// Package jsondoc writes what Loci prints and serves as JSON: the answers of the control socket and what --json prints. It
// reads nothing.
//
// All documents keep the same rules (docs/decisions/0024-json.md). Every key of a struct is always there: false and 0 are
// written, a list without elements is [], a map without entries {}, and what is not known is null. Keys are words joined by
// underscores. A length of time is a number of seconds, and its key ends in _seconds. internal/tidy holds the structs to it.
package jsondoc

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"time"
)

// Seconds is a length of time.
type Seconds float64

// SecondsOf turns a duration into its number of seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Known is a length of time that is not known where it is 0.
func Known(d time.Duration) *Seconds {
	if d == 0 {
		return nil
	}
	s := SecondsOf(d)
	return &s
}

// KnownTime is a time that is not known where it is zero.
func KnownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Duration is the same for calculations and for text.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(float64(s) * float64(time.Second)))
}

// Milliseconds is the same for columns of round-trip times.
func (s Seconds) Milliseconds() float64 { return float64(s) * 1000 }

// Append appends what a pointer to a document points to.
func Append(b []byte, document any) ([]byte, error) {
	return appendValue(b, reflect.ValueOf(document).Elem())
}

// Write writes a document on one line.
func Write(to io.Writer, document any) error {
	text, err := appendValue(nil, reflect.ValueOf(&document).Elem())
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// WriteIndented writes a document for reading, with an indent of two spaces.
func WriteIndented(to io.Writer, document any) error {
	text, err := Indented(document, "")
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// Indented is what WriteIndented writes, as a part of another document: each line but the first begins with the prefix.
func Indented(document any, prefix string) ([]byte, error) {
	text, err := appendValue(nil, reflect.ValueOf(&document).Elem())
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	err = json.Indent(&lines, text, prefix, "  ")
	return lines.Bytes(), err
}

// SPDX-License-Identifier: Apache-2.0

package jsondoc

// The elements of a long JSON array as they come. It finds where an element ends; who decodes the element finds out whether it is JSON.
// encoding/json's Decoder reads each octet twice for that.

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// elementBuffer is how many octets are read at a time.
const elementBuffer = 64 << 10

var errNoArray = errors.New("not a JSON array")

// elements is what was read of an array.
type elements struct {
	from io.Reader
	most int
	b    []byte // read and not yet yielded, from at on
	at   int
}

// Elements yields the octets of each element, valid until the next one, and an error as the last. An element has so many octets at most.
func Elements(from io.Reader, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		e := &elements{from: from, most: most}
		if c, err := e.next(""); err != nil || c != '[' {
			yield(nil, errors.Join(err, errNoArray))
			return
		}
		e.at++
		for {
			c, err := e.next(",")
			if err == nil && c == ']' {
				return
			}
			var element []byte
			if err == nil {
				element, err = e.element()
			}
			if !yield(element, err) || err != nil {
				return
			}
		}
	}
}

// next is the first octet behind blanks, and behind these others.
func (e *elements) next(skipped string) (byte, error) {
	for {
		for ; e.at < len(e.b); e.at++ {
			switch c := e.b[e.at]; {
			case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			case skipped != "" && c == skipped[0]:
			default:
				return c, nil
			}
		}
		if err := e.read(); err != nil {
			return 0, err
		}
	}
}

// element takes octets up to a comma or the array's end.
func (e *elements) element() ([]byte, error) {
	depth, quoted := 0, false
	for i := 0; ; i++ {
		for e.at+i >= len(e.b) {
			if err := e.read(); err != nil {
				return nil, err
			}
		}
		switch c := e.b[e.at+i]; {
		case quoted && c == '\\':
			i++ // what follows ends nothing
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == ']'):
			element := e.b[e.at : e.at+i]
			e.at += i
			return element, nil
		case c == '}' || c == ']':
			depth--
		}
	}
}

// read reads more, and forgets what was yielded.
func (e *elements) read() error {
	left := copy(e.b, e.b[e.at:])
	e.b, e.at = e.b[:left], 0
	if left > e.most {
		return fmt.Errorf("an element has more than %d octets", e.most)
	}
	e.b = slices.Grow(e.b, elementBuffer)
	n, err := e.from.Read(e.b[left : left+elementBuffer])
	e.b = e.b[:left+n]
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package mapcmd

// The words of a command line, one after the other. They are those of route(8) and of
// OpenLISP: long names behind a single dash, which no flag package of getopt's kind
// reads.

import (
	"errors"
	"fmt"
	"strings"
)

// words is a cursor over a command line.
type words struct {
	rest []string
}

// next takes a word; ok is false when there is none.
func (w *words) next() (word string, ok bool) {
	if len(w.rest) == 0 {
		return "", false
	}
	word, w.rest = w.rest[0], w.rest[1:]
	return word, true
}

// peek is the next word, "" when there is none.
func (w *words) peek() string {
	if len(w.rest) == 0 {
		return ""
	}
	return w.rest[0]
}

// value takes the word behind another one that needs it.
func (w *words) value(of, what string) (string, error) {
	if word := w.peek(); word == "" || strings.HasPrefix(word, "-") {
		return "", fmt.Errorf("%s needs %s behind it", of, what)
	}
	word, _ := w.next()
	return word, nil
}

// basics reads --socket, --json and --help; known is false for any other word.
func (w *words) basics(word string, c *basics) (known bool, err error) {
	name, value, hasValue := strings.Cut(word, "=")
	switch {
	case word == "--help" || word == "-h" || word == "-help":
		return true, ErrHelp
	case word == "--json":
		c.asJSON = true
	case name == "--socket" && hasValue:
		c.socket = value
	case name == "--socket":
		c.socket, err = w.value(word, "the path of a mapping socket")
	default:
		return false, nil
	}
	if err == nil && c.socket == "" {
		err = errors.New("--socket needs the path of a mapping socket")
	}
	return true, err
}

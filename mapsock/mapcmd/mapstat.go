// SPDX-License-Identifier: Apache-2.0

package mapcmd

// The syntax of mapstat, which is netstat's:
//
//	mapstat -X [-Wns] [-inet|-inet6|-f family]
//	mapstat -s [-z] [-p lisp]
//	mapstat -z
//
// What the words mean is in docs/man/loci-mapstat.8.

import (
	"errors"
	"fmt"
	"strings"
)

// mapstatRequest is what the words of mapstat ask.
type mapstatRequest struct {
	basics
	tables     bool // -X
	wide       bool // -W
	statistics bool // -s
	zero       bool // -z
	family     family
}

// parseMapstat reads the words behind mapstat.
func parseMapstat(list []string) (*mapstatRequest, error) {
	r := &mapstatRequest{basics: basics{socket: DefaultSocket}}
	w := &words{rest: list}
	for word, ok := w.next(); ok; word, ok = w.next() {
		known, err := w.basics(word, &r.basics)
		if !known && err == nil {
			err = r.option(w, word)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case !r.tables && !r.statistics && !r.zero:
		return nil, errors.New("mapstat what? Want -X for the mapping tables or -s for statistics; --help says more")
	case r.zero && r.tables && !r.statistics:
		return nil, errors.New("-z zeroes what -s shows: add -s, or leave out -X")
	case !r.tables && (r.wide || r.family != familyAny):
		return nil, errors.New("-W, -f, -inet and -inet6 choose what -X shows: add -X")
	}
	return r, nil
}

func (r *mapstatRequest) option(w *words, word string) error {
	switch word {
	case "-inet":
		return r.choose(familyIPv4)
	case "-inet6":
		return r.choose(familyIPv6)
	case "-f":
		return r.parseFamily(w)
	case "-p":
		return parseProtocol(w)
	}
	letters, isOption := strings.CutPrefix(word, "-")
	if !isOption || letters == "" {
		return fmt.Errorf("%q: mapstat takes options only; --help lists them", word)
	}
	for _, letter := range letters {
		if err := r.letter(letter, word); err != nil {
			return err
		}
	}
	return nil
}

// letter sets an option of one letter. Addresses are never turned into names, so that
// -n says what holds anyway.
func (r *mapstatRequest) letter(letter rune, word string) error {
	switch letter {
	case 'X':
		r.tables = true
	case 'W':
		r.wide = true
	case 's':
		r.statistics = true
	case 'z':
		r.zero = true
	case 'n':
	default:
		return fmt.Errorf("option %s: -%c is not known: want -X, -W, -s, -n, -z, -p lisp, -f family, -inet or -inet6", word, letter)
	}
	return nil
}

func (r *mapstatRequest) choose(f family) error {
	if r.family != familyAny && r.family != f {
		return errors.New("-inet and -inet6: leave both out to see all families")
	}
	r.family = f
	return nil
}

func (r *mapstatRequest) parseFamily(w *words) error {
	word, err := w.value("-f", "inet or inet6")
	if err != nil {
		return err
	}
	for _, f := range []family{familyIPv4, familyIPv6} {
		if word == f.String() {
			return r.choose(f)
		}
	}
	return fmt.Errorf("-f %s: want inet or inet6", word)
}

func parseProtocol(w *words) error {
	word, err := w.value("-p", "a protocol")
	if err == nil && word != "lisp" {
		err = fmt.Errorf("-p %s: mapstat knows lisp alone; netstat and nstat know the others", word)
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package mapcmd

// The syntax of map:
//
//	map [-dnqtv] add|delete|get|monitor|flush [modifiers]
//	    [-inet|-inet6 EID[/length]] [-inet|-inet6 RLOC [priority [weight [reachability]]]]...
//
// What the words mean is in docs/man/loci-map.8.

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"loci/lisp"
	"loci/mapsock"
)

// The commands of map.
const (
	verbAdd     = "add"
	verbDelete  = "delete"
	verbGet     = "get"
	verbMonitor = "monitor"
	verbFlush   = "flush"
)

// OpenLISP's metrics of an RLOC for which none are given: not used for forwarding, and
// not reachable.
const (
	defaultPriority = 255
	defaultWeight   = 100
)

// mapRequest is what the words of map ask.
type mapRequest struct {
	basics
	letters string // of the options -dnqtv
	verb    string

	cache, database, all bool
	static, nostatic     bool
	statusBits, negative bool
	version              uint16 // 0: none
	hasInstance          bool
	instance             lisp.InstanceID
	family               family // of flush; otherwise of the EID
	hasEID, hasMask      bool
	eid                  lisp.Prefix
	eidWord              string // as it was written
	locators             []mapsock.Locator
}

func (r *mapRequest) has(letter byte) bool { return strings.IndexByte(r.letters, letter) >= 0 }

// parseMap reads the words behind map.
func parseMap(list []string) (*mapRequest, error) {
	r := &mapRequest{basics: basics{socket: DefaultSocket}}
	w := &words{rest: list}
	if err := r.parseOptions(w); err != nil {
		return nil, err
	}
	for word, ok := w.next(); ok; word, ok = w.next() {
		known, err := w.basics(word, &r.basics)
		if !known && err == nil {
			err = r.modifier(w, word)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, r.check()
}

// parseOptions reads the options and the command.
func (r *mapRequest) parseOptions(w *words) error {
	for {
		word, ok := w.next()
		if !ok {
			return errors.New("map what? Want add, delete, get, monitor or flush; --help says more")
		}
		if known, err := w.basics(word, &r.basics); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		letters, isOption := strings.CutPrefix(word, "-")
		if !isOption {
			r.verb = word
			return r.checkVerb()
		}
		if letters == "" || strings.Trim(letters, "dnqtv") != "" {
			return fmt.Errorf("option %s: want some of -dnqtv before the command, and modifiers behind it", word)
		}
		r.letters += letters
	}
}

func (r *mapRequest) checkVerb() error {
	switch r.verb {
	case verbAdd, verbDelete, verbGet, verbMonitor, verbFlush:
		return nil
	}
	return fmt.Errorf("%q is not a command of map: want add, delete, get, monitor or flush", r.verb)
}

// modifier reads a word behind the command.
func (r *mapRequest) modifier(w *words, word string) (err error) {
	switches := map[string]*bool{
		"-cache": &r.cache, "-database": &r.database, "-all": &r.all, "-static": &r.static, "-nostatic": &r.nostatic,
		"-locbits": &r.statusBits, "-negative": &r.negative,
	}
	if on, ok := switches[word]; ok {
		*on = true
		return nil
	}
	switch word {
	case "-version":
		r.version, err = parseVersion(w)
		return err
	case "-instance":
		return r.parseInstance(w)
	case "-inet":
		return r.address(w, familyIPv4)
	case "-inet6":
		return r.address(w, familyIPv6)
	}
	if strings.HasPrefix(word, "-") {
		return fmt.Errorf("modifier %s is not known: want -cache, -database, -all, -static, -nostatic, -version, -locbits, -negative, -instance, -inet or -inet6", word)
	}
	w.rest = append([]string{word}, w.rest...)
	return r.address(w, familyOf(word))
}

// parseVersion reads a Map-Version; 0 stands for none (RFC 9302 s.6).
func parseVersion(w *words) (uint16, error) {
	word, err := w.value("-version", "a Map-Version")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(word, 10, 12)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("-version %s: want a Map-Version from 1 to 4095", word)
	}
	return uint16(n), nil
}

func (r *mapRequest) parseInstance(w *words) error {
	word, err := w.value("-instance", "an Instance-ID")
	if err != nil {
		return err
	}
	r.hasInstance = true
	if r.instance, err = lisp.ParseInstanceID(word); err != nil {
		return fmt.Errorf("-instance: %w", err)
	}
	return nil
}

// address reads what stands behind -inet or -inet6: the EID first, then RLOCs. For
// flush the family alone says enough.
func (r *mapRequest) address(w *words, f family) error {
	if next := w.peek(); r.verb == verbFlush && (next == "" || strings.HasPrefix(next, "-")) {
		if r.family != familyAny && r.family != f {
			return errors.New("flush -inet -inet6: leave both out to flush all families")
		}
		r.family = f
		return nil
	}
	if r.verb == verbFlush || r.verb == verbMonitor {
		return fmt.Errorf("%s takes no EID: %q has no meaning", r.verb, w.peek())
	}
	what := "an EID"
	if r.hasEID {
		what = "an RLOC"
	}
	word, err := w.value("-"+f.String(), what)
	if err != nil {
		return err
	}
	if r.hasEID {
		return r.parseLocator(w, word, f)
	}
	return r.parseEID(word, f)
}

func (r *mapRequest) parseEID(word string, f family) error {
	prefix, err := lisp.ParsePrefix(word)
	if err != nil {
		return err
	}
	if err := f.check(word, familyOfKind(prefix.Kind())); err != nil {
		return err
	}
	r.hasEID, r.family, r.eid, r.eidWord = true, f, prefix, word
	r.hasMask = strings.Contains(word, "/")
	return nil
}

// parseLocator reads the metrics behind an RLOC.
func (r *mapRequest) parseLocator(w *words, word string, f family) error {
	locator, err := parsePath(word)
	if err != nil {
		return err
	}
	if err := f.check(word, familyOfRLOC(locator.RLOC)); err != nil {
		return err
	}
	l := mapsock.Locator{Locator: locator}
	if l.Priority, err = metric(w, word, "priority", defaultPriority, 255); err != nil {
		return err
	}
	if l.Weight, err = metric(w, word, "weight", defaultWeight, 255); err != nil {
		return err
	}
	reachability, err := metric(w, word, "reachability", 0, 1)
	if err != nil {
		return err
	}
	l.Reachable = reachability == 1
	if len(r.locators) == mapsock.MaxLocators {
		return fmt.Errorf("RLOC %s: a mapping has at most %d locators", word, mapsock.MaxLocators)
	}
	r.locators = append(r.locators, l)
	return nil
}

// metric reads a number when one is there.
func metric(w *words, rloc, name string, otherwise, most uint8) (uint8, error) {
	word := w.peek()
	if word == "" || strings.HasPrefix(word, "-") || strings.ContainsAny(word, ".:") {
		return otherwise, nil
	}
	w.next()
	n, err := strconv.ParseUint(word, 10, 8)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("RLOC %s: %s %q: want a number from 0 to %d", rloc, name, word, most)
	}
	return uint8(n), nil
}

// check finds words that do not go together.
func (r *mapRequest) check() error {
	needsEID := r.verb == verbAdd || r.verb == verbDelete || r.verb == verbGet
	ofEntry := r.static || r.nostatic || r.version != 0 || r.statusBits || r.negative || len(r.locators) > 0
	switch {
	case needsEID && !r.hasEID:
		return fmt.Errorf("%s needs an EID: -inet EID/length or -inet6 EID/length", r.verb)
	case r.verb != verbAdd && ofEntry:
		return fmt.Errorf("%s takes no RLOC, -static, -nostatic, -version, -locbits or -negative: they describe a mapping to add", r.verb)
	case r.verb == verbMonitor && (r.cache || r.database || r.all || r.hasInstance):
		return errors.New("monitor takes no modifier: it prints whatever is told")
	case r.static && r.nostatic:
		return errors.New("-static and -nostatic contradict each other")
	case r.verb == verbAdd && r.negative && len(r.locators) > 0:
		return errors.New("-negative: a negative mapping has no RLOC")
	case r.verb == verbAdd && !r.negative && len(r.locators) == 0:
		return fmt.Errorf("add %s needs an RLOC, as in -inet 192.0.2.1 1 100 1, or -negative", r.eidWord)
	}
	return r.checkInstance()
}

// checkInstance joins -instance with the EID.
func (r *mapRequest) checkInstance() (err error) {
	if !r.hasEID || !r.hasInstance {
		return nil
	}
	if written := r.eid.Instance(); written != 0 && written != r.instance {
		return fmt.Errorf("-instance %s contradicts %s", r.instance, r.eidWord)
	}
	r.eid, err = lisp.PrefixFrom(r.instance, r.eid.EID(), r.eid.Bits())
	return err
}

// warn tells of locators that will carry nothing, because OpenLISP's defaults make
// such.
func (r *mapRequest) warn(err io.Writer) {
	if r.has('q') {
		return
	}
	for _, l := range r.locators {
		switch {
		case l.Priority == defaultPriority:
			fmt.Fprintf(err, "map: RLOC %s has priority 255: no packet will be sent to it; 1 100 1 behind it makes it usable\n", pathText(&l.Locator))
		case !l.Reachable:
			fmt.Fprintf(err, "map: RLOC %s has reachability 0: no packet will be sent to it; %d %d 1 behind it makes it usable\n", pathText(&l.Locator), l.Priority, l.Weight)
		}
	}
}

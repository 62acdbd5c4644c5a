// SPDX-License-Identifier: Apache-2.0

package api

// The arguments of requests, from the query of a URL.

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"loci/lisp"
)

// checkKnown refuses what a request does not take: a misspelt argument would else be left out without a word.
func checkKnown(v url.Values, known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s: no such argument: want %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

// ListQuery narrows a list of the control socket: `?eid=10.0.0.0/8&after=10.1.0.0/16&limit=100`.
type ListQuery struct {
	EIDPrefix lisp.Prefix // entries that it covers or is covered by; zero for all
	After     lisp.Prefix // entries of EID-Prefixes that come after it in the list; zero for all
	Limit     int         // the first so many entries; 0 for all
}

// Wants reports whether an entry belongs to the list.
func (q ListQuery) Wants(p lisp.Prefix) bool { return q.EIDPrefix.IsZero() || p.Overlaps(q.EIDPrefix) }

func (q ListQuery) encode() string {
	values := url.Values{}
	if !q.EIDPrefix.IsZero() {
		values.Set("eid", q.EIDPrefix.String())
	}
	if !q.After.IsZero() {
		values.Set("after", q.After.String())
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// ParseListQuery reads the query of a URL, as Values writes it.
func ParseListQuery(v url.Values) (q ListQuery, err error) {
	if err := checkKnown(v, "after", "eid", "limit"); err != nil {
		return q, err
	}
	if q.EIDPrefix, err = parsePrefix(v, "eid"); err != nil {
		return q, err
	}
	if q.After, err = parsePrefix(v, "after"); err != nil {
		return q, err
	}
	if text := v.Get("limit"); text != "" {
		limit, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return q, fmt.Errorf("limit: %q is not a number from 0 to %d", text, 1<<31-1)
		}
		q.Limit = int(limit)
	}
	return q, nil
}

// parsePrefix is the zero EID-Prefix where there is none.
func parsePrefix(v url.Values, key string) (p lisp.Prefix, err error) {
	if text := v.Get(key); text != "" {
		if p, err = lisp.ParsePrefix(text); err != nil {
			return p, fmt.Errorf("%s: %w", key, err)
		}
	}
	return p, nil
}

// ParseExplainQuery reads the query of a URL, as Values writes it.
func ParseExplainQuery(v url.Values) (q ExplainQuery, err error) {
	if err := checkKnown(v, "eid", "instance_id", "from", "protocol", "source_port", "destination_port"); err != nil {
		return q, err
	}
	number := func(key string, bits int) uint64 {
		if v.Get(key) == "" {
			return 0
		}
		n, failed := strconv.ParseUint(v.Get(key), 10, bits)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %q is not a number from 0 to %d", key, v.Get(key), 1<<bits-1))
		}
		return n
	}
	q.InstanceID, q.Protocol = lisp.InstanceID(number("instance_id", 24)), uint8(number("protocol", 8))
	q.SourcePort, q.DestinationPort = uint16(number("source_port", 16)), uint16(number("destination_port", 16))
	eid, failed := lisp.ParseEID(v.Get("eid"))
	q.EID, err = eid, errors.Join(err, failed)
	if from := v.Get("from"); from != "" {
		q.From, failed = lisp.ParseEID(from)
		err = errors.Join(err, failed)
	}
	if !q.From.IsZero() && (q.From.Kind() != q.EID.Kind() || !q.EID.IsIP()) {
		err = errors.Join(err, fmt.Errorf("from %s to %s is not a flow: want two IPv4 or two IPv6 addresses", q.From, q.EID))
	}
	return q, err
}

func parseBool(v url.Values, key string) (bool, error) {
	switch text := v.Get(key); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %q is neither true nor false", key, text)
	}
}

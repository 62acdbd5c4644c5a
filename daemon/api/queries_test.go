// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/url"
	"strings"
	"testing"

	"loci/lisp"
)

func TestExplainQueries(t *testing.T) {
	for query, want := range map[string]string{
		"":                               "EID",
		"eid=10.2.0.1&instance_id=seven": "instance_id",
		"eid=10.2.0.1&source_port=70000": "source_port",
		"eid=10.2.0.1&from=2001:db8::1":  "not a flow",
		"eid=10.2.0.1&from=nowhere":      "",
		"eid=10.2.0.1&protocol=300":      "protocol",
		"eid=02:00:00:00:00:01&from=::1": "not a flow",
		"eid=10.2.0.1&instance-id=7":     "instance-id",
	} {
		values, _ := url.ParseQuery(query)
		if _, err := ParseExplainQuery(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
	eid, _ := lisp.ParseEID("10.2.0.1")
	q := ExplainQuery{InstanceID: 7, EID: eid, From: eid, Protocol: 6, SourcePort: 1, DestinationPort: 2}
	if back, err := ParseExplainQuery(q.Values()); err != nil || back != q {
		t.Errorf("%+v came back as %+v, %v", q, back, err)
	}
}

// TestListQueries: what is not known is refused, so that a misspelt limit does not bring a million entries.
func TestListQueries(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "eid=10.0.0.0/8&limit=7": "", "limit=-1": "limit", "eid=ten": "ten", "limits=7": "limits: no such argument: want after, eid, limit",
		"after=%5B7%5D10.1.0.0%2F16&eid=10.0.0.0%2F8&limit=7": "", "after=ten": "after: ",
	} {
		values, _ := url.ParseQuery(query)
		q, err := ParseListQuery(values)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
		if back, _ := url.ParseQuery(strings.TrimPrefix(q.encode(), "?")); err == nil && back.Encode() != values.Encode() {
			t.Errorf("%q came back as %q", query, q.encode())
		}
	}
}

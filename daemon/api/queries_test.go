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
		"eid=10.2.0.1&instance-id=seven": "instance-id",
		"eid=10.2.0.1&source-port=70000": "source-port",
		"eid=10.2.0.1&from=2001:db8::1":  "not a flow",
		"eid=10.2.0.1&from=nowhere":      "",
		"eid=10.2.0.1&protocol=300":      "protocol",
		"eid=02:00:00:00:00:01&from=::1": "not a flow",
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

// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/wire"
)

// TestTriesWhileAllAreSilent: an eleventh Map-Request soon after the tenth is found, but for silence of all Map-Resolvers, which is an
// own EID that was asked for in vain.
func TestTriesWhileAllAreSilent(t *testing.T) {
	own := []control.DatabaseMapping{{Prefix: lisp.MustParsePrefix("10.1.0.0/16")}}
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		own     []control.DatabaseMapping
		askOwn  int  // after so many tries, 0 for never
		answers int  // a Map-Reply about another one comes after so many
		often   bool // and after each so many
		ownBack int  // its EIDs were withdrawn until then, and one is asked for just before the Map-Reply; 0 for never
		tries   int
		broken  bool
	}{
		{name: "ten", own: own, tries: 10},
		{name: "eleven", own: own, tries: 11, broken: true},
		{name: "silent", own: own, askOwn: 3, tries: 30},
		{name: "silent, and ten after the return", own: own, askOwn: 3, answers: 20, tries: 30},
		{name: "silent, and eleven after the return", own: own, askOwn: 3, answers: 20, tries: 31, broken: true},
		{name: "another is answered", own: own, answers: 5, tries: 11, broken: true},
		{name: "silent, and its EIDs are back just before the answer", own: own, answers: 20, ownBack: 20, tries: 30},
		{name: "the same, and eleven after the return", own: own, answers: 20, ownBack: 20, tries: 31, broken: true},
		{name: "no EID of its own", tries: 30},
		{name: "no EID of its own, another is answered once", answers: 2, tries: 30},
		{name: "no EID of its own, another is answered again and again", answers: 1, often: true, tries: 11, broken: true},
	} {
		var q Requests
		q.Forget()
		rule := ""
		for i := range c.tries {
			now := start.Add(time.Duration(i) * 2 * time.Second)
			if c.answers > 0 && (i == c.answers || c.often && i%c.answers == 0) {
				ask(&q, now.Add(-time.Second/2), "10.8.0.1/32", 99, c.own)
				if c.ownBack > 0 {
					ask(&q, now.Add(-time.Second/2), "10.1.0.0/32", 1000, c.own)
				}
				q.Answered(99, now.Add(-time.Second/4))
			}
			own := c.own
			if i < c.ownBack {
				own = nil
			}
			if got := ask(&q, now, "10.9.0.1/32", uint64(i), own); got != "" {
				rule = got
			}
			if c.askOwn > 0 && i == c.askOwn {
				ask(&q, now, "10.1.0.0/32", 1000, c.own)
			}
		}
		if broken := rule == RuleHoldDown; broken != c.broken || rule != "" && !broken {
			t.Errorf("%s: breaks %q", c.name, rule)
		}
	}
}

func ask(q *Requests, now time.Time, p string, nonce uint64, own []control.DatabaseMapping) (rule string) {
	m := wire.MapRequest{Nonce: nonce}
	m.Ask(lisp.EID{}, nil, lisp.MustParsePrefix(p))
	rule, _ = q.Sent(now, &m, own)
	return rule
}

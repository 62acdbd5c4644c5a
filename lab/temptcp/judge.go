// SPDX-License-Identifier: Apache-2.0

package temptcp

// The paper's relations, and what was found of each: in each case, that is for each source, receive buffer and binding,
// and then of all cases together.

import (
	"fmt"
	"strings"
)

// relation is what the paper says of its figures.
type relation struct {
	name, paper string
	sources     []string // that it is of; nil is all
	both        bool     // it is of both bindings together
	holds       func(j *judged, c *Case) (holds bool, found string)
}

// judged is what is judged, and by what.
type judged struct {
	*Document
	by thresholds
}

// The verdicts.
const (
	reproduced = "reproduced"
	notFound   = "not"
	depends    = "depends"
)

// judge judges all relations.
func (p *parameters) judge(d *Document) []Verdict {
	j := &judged{d, p.Judge}
	all := []Verdict{}
	for _, r := range p.relations() {
		v := Verdict{Relation: r.name, Paper: r.paper, Cases: j.cases(r, p)}
		for i := range v.Cases {
			v.Cases[i].Holds, v.Cases[i].Found = r.holds(j, &v.Cases[i])
		}
		v.decide()
		all = append(all, v)
	}
	return all
}

// cases are those of a relation.
func (j *judged) cases(r relation, p *parameters) []Case {
	sources, bindings := r.sources, []string{bindingStateless, bindingStateful}
	if sources == nil {
		sources = p.siteNames()
	}
	if r.both {
		bindings = []string{""}
	}
	all := []Case{}
	for _, source := range sources {
		for _, buffer := range p.ReceiveBuffers {
			for _, binding := range bindings {
				all = append(all, Case{Source: source, Buffer: buffer, Binding: binding})
			}
		}
	}
	return all
}

// decide sums the cases up: all hold, none does, or it depends on what tells those that do from the others.
func (v *Verdict) decide() {
	var hold, fail []string
	for _, c := range v.Cases {
		text := c.name() + ": " + c.Found
		if c.Holds {
			hold = append(hold, text)
		} else {
			fail = append(fail, text)
		}
	}
	switch {
	case len(fail) == 0:
		v.Verdict, v.Text = reproduced, reproduced
	case len(hold) == 0:
		v.Verdict, v.Text = notFound, "not, because "+some(fail)
	default:
		v.Verdict = depends
		v.Text = fmt.Sprintf("depends on %s: it holds in %d of %d cases; not with %s", v.dependsOn(), len(hold),
			len(v.Cases), some(fail))
	}
}

// dependsOn is what tells the cases that hold from the others.
func (v *Verdict) dependsOn() string {
	for _, dimension := range []struct {
		name  string
		value func(*Case) string
	}{
		{"the receive buffer", func(c *Case) string { return fmt.Sprint(c.Buffer) }},
		{"the source", func(c *Case) string { return c.Source }},
		{"the binding", func(c *Case) string { return c.Binding }},
	} {
		if v.isTold(dimension.value) {
			return dimension.name
		}
	}
	return "more than one thing"
}

// isTold reports whether cases with the same value come out alike.
func (v *Verdict) isTold(value func(*Case) string) bool {
	came := map[string]bool{}
	for i := range v.Cases {
		c := &v.Cases[i]
		if holds, known := came[value(c)]; known && holds != c.Holds {
			return false
		}
		came[value(c)] = c.Holds
	}
	return true
}

func (c *Case) name() string {
	text := c.Source + ", " + bufferText(c.Buffer)
	if c.Binding != "" {
		text += ", " + c.Binding
	}
	return text
}

// mostReasons is how many a verdict names; the object has all.
const mostReasons = 4

func some(reasons []string) string {
	if more := len(reasons) - mostReasons; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(reasons[:mostReasons], "; "), more)
	}
	return strings.Join(reasons, "; ")
}

// mode is that of a case with so many paths.
func (c *Case) mode(paths int) string {
	if c.Binding == bindingStateful {
		return mode{modeStateful, paths}.String()
	}
	return mode{modeStateless, paths}.String()
}

func (c *Case) of(mode string) of { return of{c.Source, mode, c.Buffer} }

const notMeasured = "not measured"

// percent is a share with its sign.
func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

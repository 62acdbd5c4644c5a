// SPDX-License-Identifier: Apache-2.0

package faults

// Faults of which a daemon must tell: what is lost on the way with nothing broken that a host or a carrier shows.
// They happen apart from all others. loci status at one of the parties has to name the problem in time, and all are
// healthy again soon after the end.

import (
	"context"
	"slices"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lab"
)

const (
	// verdictFault is how long such a fault lasts, verdictOneIn in how many rounds there is one.
	verdictFault = 60 * time.Second
	verdictOneIn = 8
	// verdictAfter is how long a run lasts before the first: a daemon judges a data path only when a check was
	// answered on it.
	verdictAfter = time.Minute
	// saidWithin is how soon a daemon must tell of it, healthyWithin how soon after the end none may any more.
	saidWithin    = 30 * time.Second
	healthyWithin = 60 * time.Second
	// healthEvery is how often daemons are asked.
	healthEvery = 500 * time.Millisecond
	// largestPassed is the size of the largest packets that a hop passes which drops large ones: below smallerMTU, because where
	// routers have just learnt of that MTU, none of their packets is larger.
	largestPassed = 1300
	dataPort      = 4341
)

// verdictKinds are the faults of which a daemon must tell. What is lost on the way is lost between the only router of
// a site and all others: of two, packets take the other one.
func verdictKinds(p plan) []kind {
	drop := func(d testnet.Drop) func(context.Context, *network, string) error {
		return func(_ context.Context, n *network, target string) error {
			return n.at[coreName].DropForwarded("verdict", drops(target, d)...)
		}
	}
	pass := func(_ context.Context, n *network, _ string) error { return n.at[coreName].PassForwarded("verdict") }
	alone := places(p.xtrNames(1))
	return []kind{
		{name: "data-dropped", targets: alone, start: drop(testnet.Drop{Port: dataPort}), end: pass, excuses: cut, says: []string{"data-path-lost"}},
		{name: "large-dropped", targets: alone, start: drop(testnet.Drop{Port: dataPort, Larger: largestPassed}), end: pass, excuses: cutLarge, says: []string{"path-mtu-black-hole"}},
		{name: "map-server-away", targets: []string{msName + " " + both}, start: drop(testnet.Drop{}), end: pass, says: []string{"map-server-silent", "map-resolver-silent"}},
	}
}

// cutLarge excuses all large datagrams of a site.
func cutLarge(target string, from, to time.Duration) []excuse {
	list := cut(target, from, to)
	list[0].largeOnly = true
	return list
}

// A Verdict is what daemons said of such a fault.
type Verdict struct {
	Kind, Target string
	By           string        // who reported it first; empty: no daemon, in time
	After        time.Duration // since its beginning
	Healthy      time.Duration // since its end, until all were
	Late         []string      // problems that were reported later than that, or before the fault
}

// failed reports whether daemons said something else than they should have.
func (v Verdict) failed() bool { return v.By == "" || len(v.Late) > 0 }

// verdictRound is one such fault, when all are healthy.
func (r *run) verdictRound(ctx context.Context) error {
	all := verdictKinds(r.network.plan)
	k := all[r.random.IntN(len(all))]
	return r.judgeVerdict(ctx, &fault{kind: k, target: k.targets[r.random.IntN(len(k.targets))]}, verdictFault)
}

func (r *run) judgeVerdict(ctx context.Context, f *fault, lasts time.Duration) error {
	v := Verdict{Kind: f.name, Target: f.target}
	if v.Late = r.awaitHealthy(ctx); len(v.Late) > 0 {
		r.say("%8.1fs  not healthy: %v\n", r.now().Seconds(), v.Late)
	}
	if err := r.begin(ctx, f); err != nil {
		return err
	}
	saying, cancel := context.WithTimeout(ctx, saidWithin)
	v.By = r.awaitProblem(saying, f.says)
	cancel()
	v.After = r.now() - f.from
	sleep(ctx, f.from+lasts-r.now())
	if err := r.end(ctx, f); err != nil {
		return err
	}
	ended := r.now()
	if err := r.expectBack(ctx, []*fault{f}); err != nil {
		return err
	}
	v.Late = append(v.Late, r.awaitHealthy(ctx)...)
	v.Healthy = r.now() - ended
	r.say("%8.1fs  %s was reported by %q after %.1f s; healthy %.1f s after its end\n", r.now().Seconds(), f.name, v.By, v.After.Seconds(), v.Healthy.Seconds())
	r.report.Verdicts = append(r.report.Verdicts, v)
	return nil
}

// awaitProblem waits until a daemon names one of some problems, and returns its name.
func (r *run) awaitProblem(ctx context.Context, kinds []string) (by string) {
	for ctx.Err() == nil {
		for name, health := range r.healths(ctx) {
			if slices.ContainsFunc(health.Problems, func(p api.HealthProblem) bool { return slices.Contains(kinds, p.Kind) }) {
				return name
			}
		}
		sleep(ctx, healthEvery)
	}
	return ""
}

// awaitHealthy waits until all daemons are healthy, and returns what they still tell then.
func (r *run) awaitHealthy(ctx context.Context) (problems []string) {
	waiting, cancel := context.WithTimeout(ctx, healthyWithin)
	defer cancel()
	for {
		problems = nil
		for name, health := range r.healths(ctx) {
			problems = append(problems, unhealthy(name, health)...)
		}
		if len(problems) == 0 || waiting.Err() != nil {
			slices.Sort(problems)
			return problems
		}
		sleep(waiting, healthEvery)
	}
}

// unhealthy are the problems that make a daemon say that it is not healthy.
func unhealthy(name string, health api.Health) (problems []string) {
	for _, p := range health.Problems {
		if p.Urgency != api.UrgencyNotice {
			problems = append(problems, name+" reports "+p.Kind+" "+p.Subject)
		}
	}
	return problems
}

// healths asks all daemons.
func (r *run) healths(ctx context.Context) map[string]api.Health {
	asked, cancel := context.WithTimeout(ctx, lab.PollInterval*100)
	defer cancel()
	all := map[string]api.Health{}
	for name, d := range r.network.daemons {
		if health, err := d.Client.Health(asked); err == nil {
			all[name] = health
		}
	}
	return all
}

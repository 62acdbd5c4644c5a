// SPDX-License-Identifier: Apache-2.0

package control

// A Database of a hundred thousand EID-Prefixes is applied in short event-loop iterations. Whatever
// comes meanwhile, the data plane and the Map-Servers end up with what is configured.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"loci/control/internal/etr"
	"loci/control/internal/registrar"
	"loci/lisp"
	"loci/wire"
)

// announceConfig is an ETR of two sites, each with a Map-Server, and the EID-Prefixes of those numbers
// that site names.
func announceConfig(count int, site func(i int) string, locator func(i int) string) Config {
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"})
	c.ETR.MapServers = []MapServerPeer{
		{Address: addrPort("192.0.2.100"), Site: "north", Key: secret(1), WantMapNotify: true},
		{Address: addrPort("192.0.2.101"), Site: "south", Key: secret(1), WantMapNotify: true},
	}
	for i := range count {
		if name := site(i); name != "" {
			c.ETR.Database = append(c.ETR.Database, DatabaseMapping{Prefix: reloadPrefix(10, i), Locators: locators(locator(i)), TTLMinutes: 60, Site: name})
		}
	}
	return c
}

// announced is what the world knows of an ETR: its data plane and its Map-Servers.
type announced struct {
	*journalledServer
	database map[lisp.Prefix]DatabaseMapping
	servers  map[netip.Addr]map[lisp.Prefix]lisp.Mapping
	effects  []Effect // not looked at yet
}

func newAnnounced(t *testing.T, c Config) *announced {
	t.Helper()
	n, err := New(c, epoch, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	a := &announced{
		journalledServer: &journalledServer{Node: n, now: epoch}, database: map[lisp.Prefix]DatabaseMapping{},
		servers: map[netip.Addr]map[lisp.Prefix]lisp.Mapping{},
	}
	a.look(t)
	return a
}

// keep takes the effects of an iteration and returns how many.
func (a *announced) keep() int {
	before := len(a.effects)
	for e, ok := a.Poll(); ok; e, ok = a.Poll() {
		a.effects = append(a.effects, e)
	}
	return len(a.effects) - before
}

// look carries the effects out.
func (a *announced) look(t *testing.T) {
	t.Helper()
	a.keep()
	for _, e := range a.effects {
		switch e := e.(type) {
		case InstallDatabase:
			a.database[e.Prefix] = e.DatabaseMapping
		case RemoveDatabase:
			delete(a.database, e.Prefix)
		case SendPacket:
			a.register(t, e)
		}
	}
	a.effects = nil
}

func (a *announced) register(t *testing.T, e SendPacket) {
	t.Helper()
	m, err := wire.Parse(e.Payload)
	register, ok := m.(*wire.MapRegister)
	if err != nil || !ok {
		return
	}
	if a.servers[e.Remote.Addr()] == nil {
		a.servers[e.Remote.Addr()] = map[lisp.Prefix]lisp.Mapping{}
	}
	for _, r := range register.Records {
		mapping, err := r.Mapping()
		if err != nil {
			t.Fatal(err)
		}
		if mapping.TTLMinutes == 0 {
			delete(a.servers[e.Remote.Addr()], mapping.Prefix)
			continue
		}
		a.servers[e.Remote.Addr()][mapping.Prefix] = mapping
	}
}

// iterate is one event-loop iteration, a little later.
func (a *announced) iterate() {
	a.now = a.now.Add(100 * time.Microsecond)
	a.HandleTimeout(a.now)
}

func (a *announced) reload(t *testing.T, c Config) {
	t.Helper()
	if err := a.Configure(a.now, c); err != nil {
		t.Fatal(err)
	}
}

// settle iterates until all is announced and sent.
func (a *announced) settle(t *testing.T) {
	t.Helper()
	for end := a.now.Add(20 * time.Second); a.now.Before(end) || a.etr.Announces(); a.look(t) {
		a.iterate()
		if !a.etr.Announces() {
			a.now = a.now.Add(10 * time.Millisecond)
		}
	}
}

// databaseIs fails unless the data plane has exactly what is configured.
func (a *announced) databaseIs(t *testing.T, c Config) {
	t.Helper()
	for _, m := range c.ETR.Database {
		if got, ok := a.database[m.Prefix]; !ok || !got.Equal(m) {
			t.Fatalf("the data plane has %v: want %v", got, m)
		}
	}
	if len(a.database) != len(c.ETR.Database) {
		t.Fatalf("%d EID-Prefixes in the data plane: want %d", len(a.database), len(c.ETR.Database))
	}
}

// serversHave fails unless each Map-Server has exactly its site's EID-Prefixes, and each of them is in one message.
func (a *announced) serversHave(t *testing.T, c Config) {
	t.Helper()
	want := map[string]int{}
	for _, m := range c.ETR.Database {
		want[m.Site]++
		for _, p := range a.etr.Registrar.Peers {
			got, ok := a.servers[p.Config.Address.Addr()][m.Prefix]
			if mine := p.Config.Site == m.Site; ok != mine || mine && (len(got.Locators) != 1 || got.Locators[0].RLOC != m.Locators[0].RLOC) {
				t.Fatalf("site %s has %v of %s, which is of site %s", p.Config.Site, got, m.Prefix, m.Site)
			}
		}
	}
	for _, p := range a.etr.Registrar.Peers {
		times := map[lisp.Prefix]int{}
		for _, id := range p.Messages {
			if m := a.etr.Registrar.Sender.Messages.At(id); !m.Withdrawal {
				for _, mapping := range m.Mappings {
					times[mapping.Prefix]++
				}
			}
		}
		rows := want[p.Config.Site]
		if p.Prefixes != rows || len(times) != rows || len(a.servers[p.Config.Address.Addr()]) != rows {
			t.Fatalf("site %s: %d EID-Prefixes, %d in messages, the Map-Server has %d: want %d", p.Config.Site, p.Prefixes, len(times), len(a.servers[p.Config.Address.Addr()]), rows)
		}
		for prefix, n := range times {
			if n != 1 {
				t.Fatalf("%s is in %d messages", prefix, n)
			}
		}
	}
}

func north(int) string { return "north" }

func everywhere(locator string) func(int) string { return func(int) string { return locator } }

func TestIterationsOfADatabase(t *testing.T) {
	count := 100_000
	if testing.Short() || raceEnabled {
		count = 5_000 // the work of each iteration is counted all the same
	}
	a := newAnnounced(t, announceConfig(1, north, everywhere("192.0.2.1")))
	runtime.GC()
	check := func(what string, c Config) {
		t.Helper()
		prepared, err := Prepare(c, a.Current())
		if err != nil {
			t.Fatal(err)
		}
		begun, most := false, 0
		n, longest := a.iterations(func() bool {
			if begun {
				a.iterate()
			} else {
				begun = true
				a.Apply(a.now, prepared)
			}
			most = max(most, a.keep())
			return !a.etr.Announces()
		})
		t.Logf("%s: %d iterations, the longest took %v, the fullest had %d effects", what, n, longest, most)
		if n < count/etr.AnnounceBatch || most > 4*etr.AnnounceBatch || count == 100_000 && longest > longestIteration {
			t.Errorf("%s: %d iterations, of which the longest took %v of processor time and the fullest had %d effects", what, n, longest, most)
		}
		a.look(t)
		a.databaseIs(t, c)
	}
	all := announceConfig(count, north, everywhere("192.0.2.1"))
	check("a Database that comes", all)
	check("a few that change", announceConfig(count, north, func(i int) string { return []string{"192.0.2.1", "192.0.2.2"}[i%(count/5)/(count/5-1)] }))
	check("all that change", announceConfig(count, north, everywhere("192.0.2.7")))
	check("all that move to another site", announceConfig(count, func(int) string { return "south" }, everywhere("192.0.2.7")))
	half := announceConfig(count, func(i int) string { return []string{"south", ""}[i%2] }, everywhere("192.0.2.7"))
	check("half of them goes", half)
	a.settle(t)
	a.serversHave(t, half)

	after, listed := lisp.Prefix{}, 0
	n, longest := a.iterations(func() bool {
		page := a.DatabasePage(after, 512)
		if listed += len(page); len(page) > 0 {
			after = page[len(page)-1].Prefix
		}
		return len(page) == 0
	})
	t.Logf("a list: %d iterations, the longest took %v", n, longest)
	if listed != count/2 || count == 100_000 && longest > longestIteration {
		t.Errorf("%d EID-Prefixes listed in %d iterations, the longest took %v", listed, n, longest)
	}
	check("all of it goes", announceConfig(0, nil, nil))
}

// TestIterationsOfAShutdown has all of a Database withdrawn, half of which is being withdrawn already.
func TestIterationsOfAShutdown(t *testing.T) {
	count := 100_000
	if testing.Short() || raceEnabled {
		count = 5_000
	}
	c := announceConfig(count, north, everywhere("192.0.2.1"))
	c.ETR.WithdrawOnShutdown = true
	a := newAnnounced(t, c)
	for range count {
		a.iterate()
		a.look(t)
	}
	half := announceConfig(count, func(i int) string { return []string{"north", ""}[i%2] }, everywhere("192.0.2.1"))
	half.ETR.WithdrawOnShutdown = true
	for a.reload(t, half); a.etr.Announces(); {
		a.iterate()
	}
	a.look(t)
	runtime.GC()
	most := 0
	n, longest := a.iterations(func() bool {
		more := a.Shutdown(a.now)
		most = max(most, a.keep())
		return !more
	})
	t.Logf("%d iterations, the longest took %v, the fullest had %d effects", n, longest, most)
	if n < count/etr.AnnounceBatch || most > 4*etr.AnnounceBatch || count == 100_000 && longest > longestIteration {
		t.Errorf("%d iterations, of which the longest took %v of processor time and the fullest had %d effects", n, longest, most)
	}
	a.look(t)
	for address, has := range a.servers {
		if len(has) > 0 {
			t.Errorf("%s has %d registrations", address, len(has))
		}
	}
}

// TestReloadsWhileADatabaseIsAnnounced has reloads come at any point of the ones before.
func TestReloadsWhileADatabaseIsAnnounced(t *testing.T) {
	const count = 2 * etr.AnnounceBatch
	seeds := uint64(30)
	if raceEnabled {
		seeds = 4
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		fresh := func() Config {
			return announceConfig(count, func(int) string { return []string{"north", "south", ""}[random.IntN(3)] },
				func(int) string { return fmt.Sprint("192.0.2.", 1+random.IntN(2)) })
		}
		c := fresh()
		a := newAnnounced(t, c)
		for range 2 + random.IntN(5) {
			c = fresh()
			a.reload(t, c)
			for range random.IntN(12) {
				a.look(t)
				a.iterate()
			}
		}
		a.settle(t)
		a.databaseIs(t, c)
		a.serversHave(t, c)
	}
}

// TestETRThatIsSwitchedOffWhileItsDatabaseIsAnnounced leaves nothing in the data plane that the next does not have.
func TestETRThatIsSwitchedOffWhileItsDatabaseIsAnnounced(t *testing.T) {
	const count = 4 * etr.AnnounceBatch
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		fresh := func() Config {
			return announceConfig(count, func(int) string { return []string{"north", ""}[random.IntN(2)] }, everywhere("192.0.2.1"))
		}
		c := fresh()
		a := newAnnounced(t, c)
		for range 2 + random.IntN(4) {
			if c = fresh(); random.IntN(2) == 0 {
				off := c
				off.ETR = nil
				a.reload(t, off)
			}
			for range random.IntN(4) {
				a.iterate()
			}
			a.reload(t, c)
			for range random.IntN(4) {
				a.iterate()
			}
		}
		for a.etr.Announces() || len(a.retired) > 0 {
			a.now = a.now.Add(time.Millisecond)
			a.iterate()
		}
		a.look(t)
		a.databaseIs(t, c)
	}
}

// TestShutdownWhileADatabaseIsAnnounced withdraws what any Map-Server was told.
func TestShutdownWhileADatabaseIsAnnounced(t *testing.T) {
	const count = 4 * etr.AnnounceBatch
	began := announceConfig(count, func(i int) string { return []string{"north", "north", "south", ""}[i%4] }, everywhere("192.0.2.1"))
	after := announceConfig(count, func(i int) string { return []string{"", "south", "north", "north"}[i%4] }, everywhere("192.0.2.2"))
	after.ETR.WithdrawOnShutdown = true
	under := 0
	for iterations := range 20 {
		a := newAnnounced(t, began)
		for range 20_000 { // all is sent
			a.iterate()
		}
		a.reload(t, after)
		for range iterations {
			a.iterate()
		}
		if a.etr.Announces() {
			under++
		}
		a.shutDown(t)
		for address, has := range a.servers {
			if len(has) > 0 {
				t.Fatalf("after %d iterations %s has %d registrations: %v", iterations, address, len(has), slices.Collect(maps.Keys(has))[:1])
			}
		}
	}
	if under < 5 {
		t.Errorf("%d of the passes were under way: the test proves nothing", under)
	}
}

// shutDown runs the last iterations.
func (a *announced) shutDown(t *testing.T) {
	t.Helper()
	for a.Shutdown(a.now) {
		a.look(t)
	}
	a.look(t)
}

// TestShutdownSendsWithdrawalsThatWait: what left the Database is withdrawn before the end, whether it still waited or
// another reload overtook it. What is configured stays unless the configuration has it withdrawn on shutdown.
func TestShutdownSendsWithdrawalsThatWait(t *testing.T) {
	const count, left = 2 * etr.AnnounceBatch, 7
	config := func(first int, withdraw bool) Config {
		c := announceConfig(count, func(i int) string {
			if i < first {
				return ""
			}
			return "north"
		}, everywhere("192.0.2.1"))
		c.Limits.MapRegisters = Rate{PerSecond: 1, Burst: 1}
		c.ETR.WithdrawOnShutdown = withdraw
		return c
	}
	under := 0
	for _, withdraw := range []bool{false, true} {
		for iterations := range 40 {
			a := newAnnounced(t, config(0, withdraw))
			a.now = a.now.Add(time.Hour)
			for range count {
				a.iterate()
			}
			a.reload(t, config(count-left-1, withdraw))
			for a.etr.Announces() {
				a.iterate()
			}
			a.reload(t, config(count-left, withdraw))
			for range iterations {
				a.iterate()
			}
			for _, w := range a.etr.Registrar.Work {
				under += w.Under.Len()
			}
			a.shutDown(t)
			want := left
			if withdraw {
				want = 0
			}
			if has := a.servers[netip.MustParseAddr("192.0.2.100")]; len(has) != want {
				t.Fatalf("withdraw %v, after %d iterations: the Map-Server has %d registrations: want %d", withdraw, iterations, len(has), want)
			}
		}
	}
	if under == 0 {
		t.Error("no shutdown came while withdrawals were collected: the test proves nothing")
	}
}

// TestPeersHearOfEveryReload has them told of what two reloads changed, the second of which came during the first.
func TestPeersHearOfEveryReload(t *testing.T) {
	const count = 4 * etr.AnnounceBatch
	config := func(changed ...int) Config {
		return announceConfig(count, north, func(i int) string {
			return fmt.Sprint("192.0.2.", 1+slices.Index(changed, i)+1)
		})
	}
	a := newAnnounced(t, config())
	a.settle(t)
	last := count - 1
	a.reload(t, config(1))
	if !a.etr.Pass.Walking {
		t.Fatal("the pass is over already: the test proves nothing")
	}
	a.reload(t, config(1, last))
	if a.etr.Registrar.Registered() && len(a.etr.Solicitor.Changed.List) > 0 {
		t.Error("peers are to be told before anything is registered")
	}
	for a.etr.Announces() {
		a.iterate()
	}
	want := []lisp.Prefix{reloadPrefix(10, 1), reloadPrefix(10, last)}
	if got := a.etr.Solicitor.Changed.List; !slices.Equal(got, want) {
		t.Errorf("peers are to be told of %v: want %v", got, want)
	}
}

// TestNothingIsRegisteredWhileRegistrationsAreBeingMade: a Map-Notify for the last that was sent is no sign that all is.
func TestNothingIsRegisteredWhileRegistrationsAreBeingMade(t *testing.T) {
	const count = 8 * etr.AnnounceBatch
	a := newAnnounced(t, announceConfig(count, north, everywhere("192.0.2.1")))
	a.reload(t, announceConfig(count, north, everywhere("192.0.2.2")))
	unsent := 0
	for ; a.etr.Announces(); a.iterate() {
		if r := a.etr.Registrar; r.Busy() {
			if r.Registered() {
				t.Fatal("all is said to be registered")
			}
			if r.Sender.Awaited == 0 {
				unsent++
			}
		}
	}
	if unsent == 0 {
		t.Error("there was always a message awaited: the test proves nothing")
	}
}

// TestWithdrawalsGoOnThroughAReload has no Map-Server acknowledge a withdrawal before the next change comes, which
// brings one of the two EID-Prefixes back.
func TestWithdrawalsGoOnThroughAReload(t *testing.T) {
	config := func(without ...int) Config {
		return announceConfig(4*etr.AnnounceBatch, func(i int) string {
			if slices.Contains(without, i) {
				return ""
			}
			return "north"
		}, everywhere("192.0.2.1"))
	}
	a := newAnnounced(t, config())
	for _, c := range []Config{config(1, 2), config(2, 3)} {
		for a.reload(t, c); a.etr.Announces(); {
			a.iterate()
		}
	}
	var gone []lisp.Prefix
	for _, id := range a.etr.Registrar.Peers[0].Messages {
		if m := a.etr.Registrar.Sender.Messages.At(id); m.Withdrawal {
			for _, mapping := range m.Mappings {
				gone = append(gone, mapping.Prefix)
			}
		}
	}
	if want := []lisp.Prefix{reloadPrefix(10, 2), reloadPrefix(10, 3)}; !slices.Equal(gone, want) {
		t.Errorf("%v are being withdrawn: want %v", gone, want)
	}
}

// TestAnotherXTRIDRegistersAllWhileADatabaseIsAnnounced: what comes during a pass is not lost by a reload after it.
func TestAnotherXTRIDRegistersAllWhileADatabaseIsAnnounced(t *testing.T) {
	const count = 4 * etr.AnnounceBatch
	c := announceConfig(count, north, everywhere("192.0.2.1"))
	a := newAnnounced(t, c)
	a.settle(t)
	c.XTRID[0]++
	other := announceConfig(count, func(i int) string { return []string{"south", "north"}[min(i, 1)] }, everywhere("192.0.2.1"))
	other.XTRID = c.XTRID
	began := announceConfig(count, func(i int) string { return []string{"", "north"}[min(i, 1)] }, everywhere("192.0.2.1"))
	a.reload(t, began)
	a.reload(t, c)
	a.reload(t, other)
	if !a.etr.Pass.Walking {
		t.Fatal("the first pass is over already: the test proves nothing")
	}
	for a.etr.Pass.Walking {
		a.iterate()
	}
	if !a.etr.Anew {
		t.Error("the next pass would not register all")
	}
	a.settle(t)
	a.serversHave(t, other)
}

// TestQuickIsForFewMessages registers ever more, to where the messages are too many.
func TestQuickIsForFewMessages(t *testing.T) {
	few, many := false, false
	for count := 500; !many || !few; count += 10 {
		c := announceConfig(count, north, everywhere("192.0.2.1"))
		c.ETR.QuickRegistrationInterval = 20 * time.Second
		p := newAnnounced(t, c).etr.Registrar.Peers[0]
		messages := len(p.Messages)
		if quick := p.QuickUntil != 0; quick != (messages <= registrar.QuickMessages) {
			t.Fatalf("%d messages, quick is %v", messages, quick)
		}
		few, many = few || messages == registrar.QuickMessages, many || messages == registrar.QuickMessages+1
		if messages > registrar.QuickMessages+1 {
			t.Fatal("neither side of the limit was tried: begin with fewer")
		}
	}
}

// TestOwnLocatorsAreNoChangeOfTheDataPlane has an RLOC become the ETR's own.
func TestOwnLocatorsAreNoChangeOfTheDataPlane(t *testing.T) {
	c := announceConfig(3, north, everywhere("192.0.2.2"))
	a := newAnnounced(t, c)
	c.LocalRLOCs = append(slices.Clone(c.LocalRLOCs), rloc("192.0.2.2"))
	a.reload(t, c)
	for a.keep(); len(a.effects) > 0; a.effects = a.effects[1:] {
		if e, changes := a.effects[0].(InstallDatabase); changes {
			t.Errorf("the data plane is told of %s, which is as it was for it", e.Prefix)
		}
	}
	if !a.etr.Announced.At(0).Locators[0].Local {
		t.Error("the L bit is not announced")
	}
}

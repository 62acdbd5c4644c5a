// SPDX-License-Identifier: Apache-2.0

package control

// A Map-Server that a reload takes out of the configuration, or all of them with the ETR: what it has of us is
// withdrawn, in short event-loop iterations, unless it comes back.

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"loci/control/internal/etr"
	"loci/control/internal/mapregister"
	"loci/wire"
)

var leavingAddresses = []string{"192.0.2.101:4342", "[2001:db8:ff::101]:4342"}

// leavingConfig has a Map-Server that stays and one that leaves, both of the one site there is.
func leavingConfig(count int, leaves string) (both, without Config) {
	both = announceConfig(count, north, everywhere("192.0.2.1"))
	both.ETR.MapServers[1] = MapServerPeer{Address: netip.MustParseAddrPort(leaves), Site: "north", Key: secret(1), WantMapNotify: true}
	without = both
	etr := *both.ETR
	etr.MapServers = etr.MapServers[:1]
	without.ETR = &etr
	return both, without
}

// withdrawals are the Map-Registers with TTL 0 to an address among the effects that the test has not looked at yet.
func (a *announced) withdrawals(t *testing.T, to netip.Addr) (n int) {
	t.Helper()
	a.keep()
	for _, e := range a.effects {
		sent, ok := e.(SendPacket)
		if !ok || sent.Remote.Addr() != to {
			continue
		}
		if m, err := wire.Parse(sent.Payload); err != nil {
			t.Fatal(err)
		} else if m, ok := m.(*wire.MapRegister); ok && m.Records[0].TTLMinutes == 0 {
			n++
		}
	}
	return n
}

func TestMapServerThatLeaves(t *testing.T) {
	for _, leaves := range leavingAddresses {
		t.Run(leaves, func(t *testing.T) {
			both, without := leavingConfig(2*etr.AnnounceBatch, leaves)
			gone := netip.MustParseAddrPort(leaves).Addr()
			a := newAnnounced(t, both)
			a.settle(t)
			a.serversHave(t, both)
			a.reload(t, without)
			packets := 0
			for end := a.now.Add(2 * time.Minute); a.now.Before(end); a.now = a.now.Add(10 * time.Millisecond) {
				a.iterate()
				packets += a.withdrawals(t, gone)
				if n := a.withdrawals(t, netip.MustParseAddr("192.0.2.100")); n > 0 {
					t.Fatalf("%d withdrawals to the Map-Server that stays", n)
				}
				a.look(t)
			}
			if has := len(a.servers[gone]); has > 0 {
				t.Errorf("the Map-Server that left has %d registrations", has)
			}
			a.serversHave(t, without)
			if packets < 2*mapregister.WithdrawTries || packets%mapregister.WithdrawTries != 0 {
				t.Errorf("%d Map-Registers with TTL 0: want each %d times", packets, mapregister.WithdrawTries)
			}
			if len(a.etr.Registrar.Leaving) > 0 {
				t.Error("it is still known")
			}
		})
	}
}

// TestMapServerThatComesBack: nothing that was withdrawn meanwhile stays so, and no withdrawal comes later.
func TestMapServerThatComesBack(t *testing.T) {
	for _, leaves := range leavingAddresses {
		for iterations := range 30 {
			both, without := leavingConfig(2*etr.AnnounceBatch, leaves)
			both.ETR.MapServers[1].WantMapNotify = iterations%2 == 0
			a := newAnnounced(t, both)
			a.settle(t)
			a.reload(t, without)
			for range iterations * iterations {
				a.iterate()
			}
			a.look(t)
			a.reload(t, both)
			a.settle(t)
			a.serversHave(t, both)
		}
	}
}

// TestETRThatComesBack has what is configured registered, while more is being withdrawn than one iteration does.
func TestETRThatComesBack(t *testing.T) {
	under := 0
	for _, leaves := range leavingAddresses {
		both, _ := leavingConfig(24*etr.AnnounceBatch, leaves)
		off := both
		off.ETR = nil
		for iterations := range 8 {
			a := newAnnounced(t, both)
			a.settle(t)
			a.reload(t, off)
			for range 10 * iterations {
				a.iterate()
			}
			a.look(t)
			a.reload(t, both)
			under += len(a.retired)
			for len(a.retired) > 0 {
				a.now = a.now.Add(time.Millisecond)
				a.iterate()
			}
			for address := range a.servers {
				if n := a.withdrawals(t, address); n > 0 {
					t.Fatalf("after %d iterations: %d Map-Registers with TTL 0 for what is configured", 10*iterations, n)
				}
			}
			a.settle(t)
			a.serversHave(t, both)
		}
	}
	if under < 8 {
		t.Errorf("%d withdrawals were under way: the test proves nothing", under)
	}
}

// TestETRThatIsSwitchedOffTellsAgain: the first Map-Registers may be lost, or overtake each other.
func TestETRThatIsSwitchedOffTellsAgain(t *testing.T) {
	for _, leaves := range leavingAddresses {
		both, _ := leavingConfig(etr.AnnounceBatch/8, leaves)
		off := both
		off.ETR = nil
		a := newAnnounced(t, both)
		a.settle(t)
		packets := map[netip.Addr]int{}
		for a.reload(t, off); len(a.retired) > 0; {
			a.now = a.now.Add(time.Millisecond)
			a.iterate()
			for address := range a.servers {
				packets[address] += a.withdrawals(t, address)
			}
			a.look(t)
		}
		for address, n := range packets {
			if n == 0 || n%mapregister.WithdrawTries != 0 {
				t.Errorf("%d Map-Registers with TTL 0 to %s, want each %d times", n, address, mapregister.WithdrawTries)
			}
		}
		if len(packets) != 2 {
			t.Errorf("%d Map-Servers were told", len(packets))
		}
	}
}

// TestETRThatIsSwitchedOffWithdraws what its Map-Servers have, of a pass under way too, and what is left of it at a
// shutdown.
func TestETRThatIsSwitchedOffWithdraws(t *testing.T) {
	for _, leaves := range leavingAddresses {
		both, _ := leavingConfig(4*etr.AnnounceBatch, leaves)
		half, _ := leavingConfig(2*etr.AnnounceBatch, leaves)
		off := both
		off.ETR = nil
		for iterations := range 20 {
			for _, shutDown := range []bool{false, true} {
				a := newAnnounced(t, both)
				a.settle(t)
				a.reload(t, half)
				for range iterations {
					a.iterate()
				}
				a.reload(t, off)
				for !shutDown && len(a.retired) > 0 {
					a.now = a.now.Add(time.Millisecond)
					a.iterate()
				}
				a.shutDown(t)
				for address, has := range a.servers {
					if len(has) > 0 {
						t.Fatalf("after %d iterations, shut down %v: %s has %d registrations", iterations, shutDown, address, len(has))
					}
				}
			}
		}
	}
}

// TestShutdownWhileAMapServerLeaves withdraws there at any moment, and nowhere else.
func TestShutdownWhileAMapServerLeaves(t *testing.T) {
	for _, leaves := range leavingAddresses {
		both, without := leavingConfig(4*etr.AnnounceBatch, leaves)
		gone, stays := netip.MustParseAddrPort(leaves).Addr(), netip.MustParseAddr("192.0.2.100")
		for iterations := range 40 {
			a := newAnnounced(t, both)
			a.settle(t)
			a.reload(t, without)
			for range iterations {
				a.iterate()
			}
			a.shutDown(t)
			if left, kept := len(a.servers[gone]), len(a.servers[stays]); left > 0 || kept != 4*etr.AnnounceBatch {
				t.Fatalf("after %d iterations: the Map-Server that left has %d registrations, the other %d of %d", iterations, left, kept, 4*etr.AnnounceBatch)
			}
		}
	}
}

// TestReloadsOfMapServers has Map-Servers, and the ETR, come and go at any point of what went before.
func TestReloadsOfMapServers(t *testing.T) {
	seeds := uint64(60)
	if raceEnabled {
		seeds = 6
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 3))
		all, _ := leavingConfig(0, leavingAddresses[seed%2])
		servers := all.ETR.MapServers
		fresh := func(last bool) Config {
			c := announceConfig(2*etr.AnnounceBatch, func(int) string { return []string{"north", ""}[random.IntN(2)] },
				func(int) string { return fmt.Sprint("192.0.2.", 1+random.IntN(2)) })
			c.ETR.MapServers = [][]MapServerPeer{servers, servers[:1], servers[1:]}[random.IntN(3)]
			if !last && random.IntN(4) == 0 {
				c.ETR = nil
			}
			return c
		}
		a := newAnnounced(t, fresh(true))
		for range 2 + random.IntN(6) {
			a.reload(t, fresh(false))
			for range random.IntN(20) {
				a.iterate()
				a.look(t)
			}
		}
		c := fresh(true)
		a.reload(t, c)
		a.settle(t)
		a.databaseIs(t, c)
		a.serversHave(t, c)
		configured := map[netip.Addr]bool{}
		for _, p := range c.ETR.MapServers {
			configured[p.Address.Addr()] = true
		}
		for address, has := range a.servers {
			if len(has) > 0 && !configured[address] {
				t.Fatalf("seed %d: %s, which is not configured, has %d registrations", seed, address, len(has))
			}
		}
	}
}

// TestIterationsOfALeave has a Map-Server of a large Database leave, then the whole ETR.
func TestIterationsOfALeave(t *testing.T) {
	count := 100_000
	if testing.Short() || raceEnabled {
		count = 5_000
	}
	both, without := leavingConfig(count, leavingAddresses[1])
	a := newAnnounced(t, both)
	a.settle(t)
	off := both
	off.ETR = nil
	for what, step := range []struct {
		config Config
		length time.Duration
	}{{without, time.Minute}, {off, 20 * time.Second}} {
		runtime.GC()
		end, most := a.now.Add(step.length), 0
		a.iterations(func() bool { a.reload(t, step.config); a.keep(); return true })
		n, longest := a.iterations(func() bool {
			if deadline, ok := a.NextDeadline(); ok && deadline.After(a.now) {
				a.now = deadline
			}
			a.iterate()
			most = max(most, a.keep())
			return !a.now.Before(end)
		})
		t.Logf("step %d: %d iterations, the longest took %v, the fullest had %d effects", what, n, longest, most)
		if most > 4*etr.AnnounceBatch || count == 100_000 && longest > longestIteration {
			t.Errorf("step %d: %d iterations, of which the longest took %v of processor time and the fullest had %d effects", what, n, longest, most)
		}
		a.look(t)
	}
	for address, has := range a.servers {
		if len(has) > 0 {
			t.Errorf("%s has %d registrations", address, len(has))
		}
	}
	if len(a.database) > 0 {
		t.Errorf("%d EID-Prefixes are in the data plane", len(a.database))
	}
}

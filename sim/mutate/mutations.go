// SPDX-License-Identifier: Apache-2.0

package main

// The mutations: mistakes that somebody could make, each against something that RFC 9300
// or RFC 9301 demands. old must stand in the file exactly once.

type mutation struct{ name, file, old, new string }

var mutations = []mutation{
	{"any-key", "control/keyring.go", "	if err != nil {\n		return covered, refusal(RefusedAuthentication", "	if err != nil && len(b) == 0 {\n		return covered, refusal(RefusedAuthentication"},
	{"other-sites-prefixes", "control/keyring.go", "case !ok || owner.site != first.site:", "case !ok:"},
	{"forged-notify", "control/keyring.go", "authenticate(key, b, algorithm); refused == nil {", "authenticate(key, b, algorithm); refused == nil || refused != nil {"},
	{"replay", "control/mapserver.go", "case m.Nonce > seen.nonce:", "case m.Nonce != seen.nonce:"},
	{"nonce-starts-over", "control/host.go", "max(h.registerNonce+1, uint64(max(h.wall.UnixNano(), 0)))", "h.registerNonce + 1"},
	{"request-twice-a-second", "control/limits.go", "	mapRequestInterval = time.Second\n", "	mapRequestInterval = time.Second / 2\n"},
	{"request-after-answer", "control/itr.go", "	if until <= r.h.now {", "	if until >= r.h.now {"},
	{"too-many-tries", "control/limits.go", "mapRequestTries    = 10", "mapRequestTries    = 12"},
	{"short-hold-down", "control/limits.go", "mapRequestHoldDown = 30 * time.Second", "mapRequestHoldDown = 3 * time.Second"},
	{"ttl-doubled", "control/itr.go", "lisp.Lifetime(m.TTLMinutes, ", "2*lisp.Lifetime(m.TTLMinutes, "},
	{"no-refresh", "control/itr_cache.go", "e.refreshing || !used ||", "e.refreshing || used ||"},
	{"adopted-for-ever", "control/itr_cache.go", "expiresAt := r.h.instant(a.ExpiresAt)", "expiresAt := r.h.after(r.config.UnlimitedTTL)"},
	{"gleaned-too-long", "control/itr_glean.go", "const gleanLifetime = 3 * time.Second", "const gleanLifetime = 30 * time.Second"},
	{"gleaned-over-known", "control/itr_glean.go", "ok && e.mapping.Action != lisp.ActionSendMapRequest {", "ok && e.gleaned {"},
	{"no-eviction", "control/itr.go", "r.cache.size() >= r.h.limits.MapCacheEntries && !r.evict():", "r.cache.size() < 0 && !r.evict():"},
	{"unbounded-requests", "control/itr.go", "if r.pending.size() >= r.h.limits.PendingRequests {", "if r.pending.size() < 0 {"},
	{"instance-forgotten", "control/itr.go", "asked := lisp.HostPrefix(m.Instance, m.Destination)", "asked := lisp.HostPrefix(0, m.Destination)"},
	{"no-merge", "control/registrations.go", "if last.next != noRow && t.xtrs.at(last.xtr).mergeRequest {", "if last.next != noRow && !t.xtrs.at(last.xtr).mergeRequest {"},
	{"negative-covers-all", "control/mapserver.go", "leastSpecificHole(host, 0, s.prefixes.overlaps)", "leastSpecificHole(host, 0, func(lisp.Prefix) bool { return false })"},
	{"more-specifics-untold", "control/mapserver.go", "		if p == best {\n			continue\n		}", "		if p.Bits() >= best.Bits() {\n			continue\n		}"},
	{"etr-more-specifics-untold", "control/etr.go", "		if p != best {\n			all =", "		if p != best && len(all) > 1 {\n			all ="},
	{"hasty-register", "control/limits.go", "registerRetransmitFirst = time.Second", "registerRetransmitFirst = time.Second / 4"},
	{"rare-register", "control/config.go", "defaultRegistrationInterval = time.Minute", "defaultRegistrationInterval = 9 * time.Minute"},
	{"unlimited-replies", "control/reply.go", "h.mayReply(replyKey{rloc, r.mappings[0].Prefix}", "h.mayReply(replyKey{rloc, lisp.HostPrefix(lisp.InstanceID(to.Nonce), r.mappings[0].Prefix.EID())}"},
	{"priority-255-used", "lisp/locator.go", "return l.Reachable && l.Priority != PriorityUnused", "return l.Reachable"},
	{"unreachable-used", "lisp/locator.go", "return l.Reachable && l.Priority != PriorityUnused", "return l.Priority != PriorityUnused"},
	{"worst-priority", "forward/locator.go", "priority = min(priority, int(l.Priority))", "priority = int(l.Priority)"},
	{"evicts-more-specifics", "control/itr.go", "		r.removeCovering(r.cache.entries.at(id).mapping.Prefix, RemoveEvicted)\n", ""},
	{"drops-idle-more-specifics", "control/itr_cache.go", "case idle && r.isCovered(e.mapping.Prefix):", "case idle && r.cache.size() < 0:"},
	{"covers-unregistered", "control/mapserver.go", "if !alone && s.holdsOthers(best, s.registrations.siteOf(row)) {", "if !alone && s.holdsOthers(best, s.registrations.siteOf(row)) && row == nil {"},
	{"any-instance-accepted", "forward/xtr.go", "if !x.Tables.InDatabase(e.Instance, e.Header.Destination) {", "if false {"},
	{"smr-without-d", "control/solicit.go", "SMR: true, DontReply: true, LocalXTR: true", "SMR: true, LocalXTR: true"},
	{"hasty-probes", "control/probing.go", "		return p.config.RetriesInterval\n	}\n	return p.jittered(", "		return p.config.RetriesInterval / 8\n	}\n	return p.jittered("},
	{"status-bit-ignored", "control/hints.go", "case !up && at < 0 &&", "case !up && at > 0 &&"},
	{"forgery-cuts-off", "control/hints.go", "if p.find == nil || l.alone > 0 {\n		return false", "if p.find == nil || l.alone > 0 {\n		return true"},
	{"nonces-not-restored", "control/journal_read.go", "if site == nil || short {", "if site != nil || short {"},
	{"refreshes-not-stored", "control/mapserver.go", "	s.journalRegister(site, m, x)\n", "	if m.WantMapNotify {\n		s.journalRegister(site, m, x)\n	}\n"},
	{"checkpoint-forgets", "control/journal.go", "		end := min(j.row+checkpointRows,", "		j.row++\n		end := min(j.row+checkpointRows,"},
}

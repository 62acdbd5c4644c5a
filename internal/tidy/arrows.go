// SPDX-License-Identifier: Apache-2.0

// Who may import whom. The table is the dependency rule of the design: an arrow that is not here does not exist.

package tidy

import (
	"slices"
	"strings"
)

// arrows says which rooms of the module each room may import. A room is a directory with all below it, except what
// has a room of its own; "dataplane/" stands for each directory below dataplane, an engine. Packages of one room may
// import each other. Tests are free: they put together what they test.
var arrows = map[string][]string{
	"lisp":       {},
	"wire":       {"lisp"},
	"forward":    {"lisp", "wire"},
	"dataplane":  {"lisp"},
	"dataplane/": {"lisp", "dataplane", "forward", "internal/genetlink", "internal/waitread"},

	"dataplane/conformance/behindnat":    {"lisp", "dataplane", "dataplane/", "dataplane/conformance/links", "internal/testnet"},
	"dataplane/conformance/differential": {"lisp", "dataplane", "dataplane/"},

	"dataplane/kernel":            {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/atonce", "dataplane/kernel/attach", "dataplane/kernel/entries", "dataplane/kernel/features", "dataplane/kernel/netspace", "dataplane/kernel/nexthop", "dataplane/kernel/observe", "dataplane/kernel/pending", "dataplane/kernel/pins", "dataplane/kernel/reclaim", "dataplane/kernel/segmenter", "dataplane/kernel/store", "dataplane/kernel/tables", "dataplane/kernel/tap", "dataplane/kernel/underlay", "dataplane/kernel/upgrade", "internal/waitread"},
	"dataplane/conformance/links": {"lisp", "dataplane", "dataplane/", "forward", "internal/testnet"},
	"dataplane/user":              {"lisp", "wire", "dataplane", "dataplane/", "forward", "dataplane/kernel/netspace", "dataplane/user/offload", "dataplane/user/tun", "dataplane/user/underlay"},
	"dataplane/user/offload":      {},
	"dataplane/user/tun":          {"dataplane/kernel/atonce", "dataplane/kernel/netspace", "dataplane/user/offload", "internal/waitread"},
	"dataplane/user/underlay":     {"dataplane/kernel/atonce", "internal/waitread"},
	"dataplane/kernel/abi":        {"lisp"},
	"dataplane/kernel/atonce":     {},
	"dataplane/kernel/attach":     {"lisp", "dataplane", "dataplane/kernel/abi", "dataplane/kernel/features", "dataplane/kernel/netspace", "dataplane/kernel/pins", "dataplane/kernel/store", "dataplane/kernel/tap", "internal/genetlink"},
	"dataplane/kernel/bootclock":  {},
	"dataplane/kernel/entries":    {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/bootclock", "dataplane/kernel/lpm", "dataplane/kernel/netspace", "dataplane/kernel/observe", "dataplane/kernel/reclaim", "dataplane/kernel/store", "dataplane/kernel/tables", "dataplane/kernel/tap", "dataplane/kernel/underlay"},
	"dataplane/kernel/features":   {"dataplane/kernel/netspace", "internal/genetlink"},
	"dataplane/kernel/kerneltest": {"lisp", "dataplane/kernel/tap"},
	"dataplane/kernel/lpm":        {"lisp", "dataplane", "dataplane/kernel/abi", "dataplane/kernel/reclaim"},
	"dataplane/kernel/netspace":   {},
	"dataplane/kernel/observe":    {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/bootclock", "dataplane/kernel/features", "dataplane/kernel/pins", "dataplane/kernel/store", "dataplane/kernel/tables", "dataplane/kernel/tap"},
	"dataplane/kernel/nexthop":    {"lisp", "dataplane/kernel/abi", "dataplane/kernel/bootclock", "dataplane/kernel/netspace", "dataplane/kernel/tables"},
	"dataplane/kernel/pending":    {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/entries", "dataplane/kernel/netspace", "dataplane/kernel/store", "dataplane/kernel/tap", "dataplane/kernel/underlay", "internal/waitread"},
	"dataplane/kernel/underlay":   {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/netspace", "dataplane/kernel/tap"},
	"dataplane/kernel/pins":       {},
	"dataplane/kernel/reclaim":    {},
	"dataplane/kernel/segmenter":  {"dataplane/kernel/netspace"},
	"dataplane/kernel/store":      {"lisp", "dataplane", "dataplane/kernel/abi", "dataplane/kernel/lpm", "dataplane/kernel/pins", "dataplane/kernel/reclaim", "dataplane/kernel/tables"},
	"dataplane/kernel/tables":     {"lisp", "dataplane", "forward", "dataplane/kernel/abi", "dataplane/kernel/lpm", "dataplane/kernel/reclaim"},
	"dataplane/kernel/tap":        {"forward", "dataplane/kernel/abi", "dataplane/kernel/atonce", "dataplane/kernel/netspace", "dataplane/kernel/pins"},
	"dataplane/kernel/upgrade":    {"lisp", "dataplane", "dataplane/kernel/abi", "dataplane/kernel/pins", "dataplane/kernel/reclaim", "dataplane/kernel/store", "dataplane/kernel/tables"},

	"mapsock":        {"lisp", "dataplane"},
	"mapsock/server": {"lisp", "dataplane", "mapsock"},
	"mapsock/mapcmd": {"lisp", "dataplane", "mapsock", "internal/errorkind", "internal/jsondoc"},
	"config": {"lisp", "config/source", "config/codec", "config/difference", "config/mobile",
		"config/multipath", "config/probing", "config/translation", "config/tun"},
	"config/difference":      {"config/source", "config/codec"},
	"config/mobile":          {"lisp"},
	"config/multipath":       {"lisp", "config/codec", "config/source"},
	"config/translation":     {},
	"config/tun":             {},
	"config/probing":         {"lisp", "config/codec"},
	"config/source":          {},
	"config/codec":           {"lisp", "config/source"},
	"sim":                    {"lisp", "wire", "control", "dataplane", "sim/internal/checks", "sim/internal/natworld", "sim/internal/network", "sim/internal/sites", "sim/internal/world", "sim/internal/packets", "sim/internal/report", "sim/internal/virtual"},
	"sim/mutate":             {"sim"},
	"sim/internal/world":     {"lisp", "wire", "control", "dataplane", "dataplane/", "sim/internal/checks", "sim/internal/paths", "sim/internal/disk", "sim/internal/handover", "sim/internal/mirror", "sim/internal/network", "sim/internal/packets", "sim/internal/rates", "sim/internal/report", "sim/internal/sites", "sim/internal/virtual", "internal/jsondoc", "internal/nodeplane"},
	"sim/internal/checks":    {"lisp", "wire", "control", "dataplane", "dataplane/", "internal/jsondoc", "sim/internal/handover", "sim/internal/mirror", "sim/internal/network", "sim/internal/packets", "sim/internal/paths", "sim/internal/rates", "sim/internal/report", "sim/internal/sites", "sim/internal/virtual"},
	"sim/internal/sites":     {"lisp", "control", "sim/internal/mirror", "sim/internal/network", "sim/internal/packets", "sim/internal/paths", "sim/internal/report", "sim/internal/virtual"},
	"sim/internal/mirror":    {"lisp", "control", "dataplane", "sim/internal/virtual"},
	"sim/internal/addresses": {},
	"sim/internal/network":   {"wire", "sim/internal/addresses", "sim/internal/report", "sim/internal/virtual"},
	"sim/internal/paths":     {"lisp", "control", "sim/internal/virtual"},
	"sim/internal/disk":      {"control"},
	"sim/internal/handover":  {"lisp", "wire", "control", "sim/internal/rates"},
	"sim/internal/report":    {"internal/jsondoc"},
	"sim/internal/rates":     {"lisp", "wire", "control", "sim/internal/mirror", "sim/internal/packets", "sim/internal/virtual"},
	"sim/internal/packets":   {"lisp", "wire"},
	"sim/internal/virtual":   {},
	"sim/internal/natbox":    {"sim/internal/virtual"},
	"sim/internal/natworld":  {"lisp", "wire", "control", "dataplane", "dataplane/", "internal/jsondoc", "internal/nodeplane", "sim/internal/disk", "sim/internal/natbox", "sim/internal/network", "sim/internal/packets", "sim/internal/report", "sim/internal/virtual"},
	"diagnosis":              {"lisp", "wire", "control", "daemon/api", "internal/jsondoc"},
	"packettrace":            {"lisp", "forward", "config", "dataplane/", "dataplane/kernel/observe", "dataplane/kernel/pins", "daemon/api", "internal/version"},

	"daemon": {"lisp", "control", "dataplane", "dataplane/", "mapsock/server", "config", "config/source", "daemon/answers", "daemon/api", "daemon/apiserver", "daemon/datapath", "daemon/eventloop", "daemon/events", "daemon/handover",
		"daemon/hostnet", "daemon/lispnat", "daemon/metrics", "daemon/plan", "daemon/planeworker", "daemon/policyroute", "daemon/remoteplane", "daemon/store", "daemon/transport", "daemon/trouble", "internal/errorkind", "internal/version",
		"internal/wakeup", "internal/nodeplane"},
	"daemon/datapath": {"lisp", "control", "forward"},
	"daemon/metrics":  {"control", "config", "daemon/api"},
	"daemon/answers": {"lisp", "control", "forward", "dataplane", "config", "daemon/api", "daemon/datapath", "daemon/eventloop", "daemon/handover", "daemon/health", "daemon/hostnet", "daemon/lispnat", "daemon/plan", "daemon/planeworker", "daemon/remoteplane",
		"daemon/store", "daemon/transport", "daemon/trouble", "internal/jsondoc", "internal/version"},
	"daemon/health":      {"lisp", "control", "daemon/api", "internal/jsondoc"},
	"daemon/apiserver":   {"daemon/api", "daemon/events", "internal/jsondoc"},
	"daemon/eventloop":   {"lisp", "control", "dataplane", "daemon/api", "daemon/events", "daemon/handover", "daemon/planeworker", "daemon/store", "daemon/transport", "internal/wakeup", "internal/nodeplane"},
	"daemon/handover":    {"lisp", "control", "forward", "dataplane", "config"},
	"daemon/kernelplane": {"dataplane", "dataplane/kernel", "dataplane/kernel/features", "dataplane/kernel/pins", "config"},
	"daemon/userplane":   {"dataplane", "dataplane/user", "mapsock", "config"},
	"daemon/engines":     {"lisp", "dataplane", "dataplane/kernel", "dataplane/kernel/pins", "dataplane/user", "config", "daemon/kernelplane", "daemon/userplane", "daemon/lispnat", "daemon/policyroute"},
	"daemon/lispnat": {"forward", "dataplane", "config", "config/translation", "daemon/trouble",
		"internal/wakeup"},
	"daemon/plan": {"lisp", "control", "dataplane", "config", "config/multipath", "config/probing", "daemon/handover",
		"daemon/hostnet", "daemon/lispnat", "daemon/trouble"},
	"daemon/planeworker": {"lisp", "control", "dataplane", "internal/wakeup", "internal/nodeplane"},
	"daemon/remoteplane": {"lisp", "dataplane", "mapsock"},
	"daemon/api":         {"lisp", "wire", "internal/errorkind", "internal/jsondoc"},
	"daemon/events":      {"lisp", "control", "dataplane", "daemon/api", "internal/wakeup"},
	"daemon/hostnet":     {"lisp", "control", "config", "daemon/trouble", "internal/wakeup"},
	"daemon/policyroute": {"lisp", "dataplane", "config", "config/mobile", "daemon/hostnet", "internal/wakeup"},
	"daemon/store":       {"control", "internal/wakeup"},
	"daemon/trouble":     {},
	"daemon/transport":   {"control", "forward", "dataplane/", "dataplane/kernel/atonce", "internal/waitread", "internal/wakeup"},

	"lab": {"lisp", "wire", "config/codec", "daemon/api", "internal/jsondoc",
		"internal/testnet"},
	"lab/experiment": {"config/codec", "internal/jsondoc", "internal/testnet", "lab"},
	"lab/measured": {"daemon/api", "internal/jsondoc", "internal/testnet", "lab", "lab/bench/report", "lab/chart",
		"lab/experiment"},
	"lab/temptcp": {"lisp", "daemon/api", "internal/jsondoc", "internal/table", "internal/testnet", "lab", "lab/bench/report",
		"lab/chart", "lab/experiment", "lab/te"},
	"lab/faults":       {"config", "daemon/api", "internal/jsondoc", "internal/testnet", "lab"},
	"lab/bench":        {"lab", "internal/jsondoc", "internal/testnet", "lab/bench/report", "lab/bench/testbed", "lab/bench/mappings", "lab/bench/fib", "lab/bench/forwarding", "lab/bench/lispnat", "lab/bench/misses", "lab/bench/relay", "lab/bench/controlplane", "lab/bench/user"},
	"lab/bench/report": {"internal/jsondoc"},
	"lab/bench/echo":   {"internal/testnet"},
	"lab/bench/testbed": {"lisp", "wire", "dataplane", "mapsock", "daemon/api", "internal/jsondoc",
		"internal/testnet", "lab", "lab/bench/report"},
	"lab/bench/mappings":   {"lisp", "dataplane", "dataplane/", "dataplane/kernel", "lab/bench/testbed"},
	"lab/bench/fib":        {"lisp", "dataplane", "dataplane/", "dataplane/kernel", "dataplane/kernel/pins", "internal/testnet", "lab/bench/report", "lab/bench/testbed", "lab/bench/mappings"},
	"lab/bench/forwarding": {"daemon/api", "internal/testnet", "lab/bench/report", "lab/bench/testbed", "lab/bench/mappings"},
	"lab/bench/lispnat":    {"internal/testnet", "lab/bench/report", "lab/bench/testbed"},
	"lab/bench/relay":      {"internal/testnet", "lab/bench/report", "lab/bench/testbed", "lisp", "wire"},
	"lab/throughput":       {"internal/jsondoc", "internal/testnet", "lab/bench/report", "lab/bench/testbed", "lab/bench/user", "lab/chart"},
	"lab/chart":            {"lab/bench/report"},
	"lab/te":               {"lisp", "config", "daemon/api", "internal/jsondoc", "internal/table", "lab/chart"},
	"lab/bench/tunnel":     {"internal/testnet"},
	"docs/recording":       {},
	"lab/bench/user": {"internal/testnet", "lab/bench/echo", "lab/bench/misses", "lab/bench/report",
		"lab/bench/testbed", "lab/bench/tunnel"},
	"lab/bench/misses":       {"lisp", "wire", "internal/testnet", "lab/bench/echo", "lab/bench/report", "lab/bench/testbed"},
	"lab/bench/controlplane": {"lisp", "wire", "mapsock", "daemon/api", "internal/testnet", "lab/bench/report", "lab/bench/testbed", "lab/bench/mappings"},
	"cmd/loci":               {"lisp", "wire", "control", "config", "config/source", "daemon", "daemon/api", "daemon/engines", "daemon/metrics", "diagnosis", "mapsock", "mapsock/mapcmd", "packettrace", "internal/command", "internal/jsondoc", "internal/manuals", "internal/table"},
	"cmd/loci-lab":           {"config", "lab", "lab/experiment", "lab/faults", "lab/bench", "lab/bench/echo", "lab/bench/testbed", "lab/bench/tunnel", "lab/measured", "lab/te", "lab/temptcp", "lab/throughput", "sim", "internal/command", "internal/jsondoc", "internal/manuals", "internal/table"},
	"internal/command":       {"config/codec", "internal/jsondoc", "internal/version"},
	"internal/commandtest":   {},
	"internal/manuals":       {"internal/version"},
	"internal/version":       {},
	"internal/jsondoc":       {},
	"internal/table":         {},
	"internal/errorkind":     {},
	"internal/genetlink":     {},
	"internal/golden":        {"lisp"},
	"internal/nodeplane":     {"control", "dataplane"},
	"internal/attributes":    {"lisp"},
	"internal/waitread":      {},
	"internal/wakeup":        {},
	"internal/testnet":       {"internal/genetlink"},
	"internal/testprogress":  {},
	"internal/tidy":          {},

	// Inside control, bottom-up: containers and values, what roles share, the roles, the Node. No role imports
	// another.
	"control/internal/table":       {"lisp"},
	"control/internal/timing":      {"control/internal/table"},
	"control/internal/batch":       {"control/internal/timing"},
	"control/internal/locatorset":  {"lisp", "control/internal/table"},
	"control/internal/settings":    {"lisp", "wire", "control/internal/timing", "control/internal/locatorset"},
	"control/internal/counter":     {"wire"},
	"control/internal/hops":        {"lisp"},
	"control/internal/effect":      {"lisp", "control/internal/hops", "control/internal/settings"},
	"control/internal/status":      {"lisp", "control/internal/settings", "control/internal/effect"},
	"control/internal/report":      {"lisp"},
	"control/internal/message":     {"lisp", "wire", "control/internal/table", "control/internal/settings", "control/internal/counter"},
	"control/internal/system":      {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/message"},
	"control/internal/database":    {"lisp", "control/internal/table", "control/internal/settings"},
	"control/internal/mapcache":    {"lisp", "control/internal/table", "control/internal/timing"},
	"control/internal/duplicates":  {"lisp", "control/internal/timing", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system", "control/internal/database"},
	"control/internal/subflow":     {"lisp", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/report", "control/internal/system"},
	"control/internal/lost":        {"lisp", "control/internal/table", "control/internal/timing"},
	"control/internal/reach":       {"lisp", "wire", "control/internal/hops", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/report", "control/internal/message", "control/internal/system", "control/internal/mapcache"},
	"control/internal/resolvers":   {"control/internal/timing", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system"},
	"control/internal/maprequest":  {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/system", "control/internal/mapcache", "control/internal/resolvers"},
	"control/internal/itr":         {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/locatorset", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/report", "control/internal/message", "control/internal/system", "control/internal/mapcache", "control/internal/lost", "control/internal/reach", "control/internal/resolvers", "control/internal/maprequest", "control/internal/simplenat"},
	"control/internal/relay":       {"lisp", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/report", "control/internal/message", "control/internal/system"},
	"control/internal/mapregister": {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system"},
	"control/internal/registrar":   {"lisp", "wire", "control/internal/table", "control/internal/mapregister", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system"},
	"control/internal/solicit":     {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/counter", "control/internal/effect", "control/internal/message", "control/internal/system"},
	"control/internal/etr":         {"lisp", "control/internal/table", "control/internal/batch", "control/internal/locatorset", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/report", "control/internal/message", "control/internal/system", "control/internal/database", "control/internal/mapregister", "control/internal/registrar", "control/internal/solicit"},
	"control/internal/indata":      {"lisp", "wire", "control/internal/counter", "control/internal/system"},
	"control/internal/simplenat":   {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system", "control/internal/indata"},
	"control/internal/nat":         {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system", "control/internal/indata"},
	"control/internal/transfer":    {"lisp", "wire", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/message", "control/internal/system"},
	"control/internal/siblings":    {"lisp", "wire", "control/internal/timing", "control/internal/transfer", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system", "control/internal/database", "control/internal/reach"},
	"control/internal/mapserver":   {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/locatorset", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/message", "control/internal/system"},
	"control/internal/mapresolver": {"lisp", "control/internal/table", "control/internal/settings", "control/internal/counter", "control/internal/message", "control/internal/system"},
	"control":                      {"lisp", "wire", "control/internal/table", "control/internal/timing", "control/internal/batch", "control/internal/settings", "control/internal/counter", "control/internal/effect", "control/internal/status", "control/internal/report", "control/internal/message", "control/internal/system", "control/internal/database", "control/internal/duplicates", "control/internal/mapcache", "control/internal/reach", "control/internal/itr", "control/internal/relay", "control/internal/mapregister", "control/internal/registrar", "control/internal/solicit", "control/internal/etr", "control/internal/siblings", "control/internal/transfer", "control/internal/mapserver", "control/internal/nat", "control/internal/simplenat", "control/internal/mapresolver", "control/internal/subflow"},
}

// room returns the key of arrows that a directory belongs to, "" when there is none, and the directory the room
// begins at.
func room(directory string) (key, begin string) {
	for candidate := range arrows {
		subtree, each := strings.CutSuffix(candidate, "/")
		below, isBelow := strings.CutPrefix(directory, subtree+"/")
		if len(candidate) <= len(key) || !isBelow && (each || directory != subtree) {
			continue
		}
		key, begin = candidate, subtree
		if each {
			engine, _, _ := strings.Cut(below, "/")
			begin = subtree + "/" + engine
		}
	}
	return key, begin
}

func checkArrows(t *tree) []finding {
	var all []finding
	for _, f := range t.source() {
		key, begin := room(f.directory())
		if key == "" {
			all = append(all, finding{path: f.path, message: "package " + f.directory() + " has no dependency rule: add it to arrows in internal/tidy"})
			continue
		}
		for imported, place := range f.imports() {
			target, internal := strings.CutPrefix(imported, module+"/")
			targetKey, targetBegin := room(target)
			if internal && targetBegin != begin && !slices.Contains(arrows[key], targetKey) {
				all = append(all, t.at(f, place, "%s must not import %s (it may import: %s)", f.directory(), target, strings.Join(arrows[key], ", ")))
			}
		}
	}
	return all
}

func checkUnsafe(t *tree) []finding {
	var all []finding
	for _, f := range t.files {
		if f.syntax == nil || inside(f.directory(), "dataplane/kernel") {
			continue
		}
		if place, found := f.imports()["unsafe"]; found {
			all = append(all, t.at(f, place, "unsafe belongs in dataplane/kernel alone"))
		}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

const document = "../docs/mapsock.md"

// numbers are the format's, by the names that the document, C and Python give them.
func numbers() map[string]uint64 {
	return map[string]uint64{
		"ADD": uint64(TypeAdd), "DELETE": uint64(TypeDelete), "CHANGE": uint64(TypeChange), "GET": uint64(TypeGet), "MISS": uint64(TypeMiss),
		"MISS_EID": uint64(TypeMissEID), "MISS_HEADER": uint64(TypeMissHeader), "MISS_PACKET": uint64(TypeMissPacket),
		"LSBITS": uint64(TypeStatusBits), "LOCALSTALE": uint64(TypeLocalStale), "REMOTESTALE": uint64(TypeRemoteStale),
		"NONCEMISMATCH": uint64(TypeNonceMismatch), "FLUSH": uint64(TypeFlush), "DUMP": uint64(TypeDump),
		"SET_LOCATOR_STATE": uint64(TypeSetLocatorState), "DUMP_LOCATOR_STATES": uint64(TypeDumpLocatorStates),
		"SET_SETTINGS": uint64(TypeSetSettings), "GET_SETTINGS": uint64(TypeGetSettings), "GET_COUNTERS": uint64(TypeGetCounters),
		"LISTEN": uint64(TypeListen), "DETACH": uint64(TypeDetach), "LOST": uint64(TypeLost), "UNREACHABLE": uint64(TypeUnreachable), "MTU": uint64(TypeMTU), "ZERO_COUNTERS": uint64(TypeZeroCounters), "GLEANED": uint64(TypeGleaned), "GET_PATHS": uint64(TypeGetPaths),
		"DUMP_HEARD": uint64(TypeDumpHeard), "CONTROL_PACKET": uint64(TypeControlPacket),
		"PUT_FLOW": uint64(TypePutFlow), "DELETE_FLOW": uint64(TypeDeleteFlow),
		"DUMP_FLOWS": uint64(TypeDumpFlows), "SUBFLOW": uint64(TypeSubflow),

		"F_DB": uint64(FlagDatabase), "F_VERSIONING": uint64(FlagVersioning), "F_LOCBITS": uint64(FlagStatusBits), "F_STATIC": uint64(FlagStatic),
		"F_UP": uint64(FlagUp), "F_ALL": uint64(FlagAll), "F_EXPIRED": uint64(FlagExpired), "F_NEGATIVE": uint64(FlagNegative), "F_DONE": uint64(FlagDone),
		"F_OWN": uint64(FlagOwn), "F_REPLACE": uint64(FlagReplace), "F_MORE": uint64(FlagMore), "F_AUTHORITATIVE": uint64(FlagAuthoritative), "F_HANDED": uint64(FlagHanded), "F_SINCE": uint64(FlagSince),
		"F_ECHO_NONCE": uint64(FlagEchoNonce), "F_GLEANED": uint64(FlagGleaned), "F_STALE": uint64(FlagStale),
		"F_BY_NAT": uint64(FlagByNAT), "F_REGISTERED": uint64(FlagRegistered),
		"F_FROM_CORE": uint64(FlagFromCore),

		"H_PUBLIC_INTERNET": uint64(HeaderPublicInternet), "H_STATUS_BITS": uint64(HeaderStatusBits), "H_MAP_VERSIONS": uint64(HeaderMapVersions),
		"H_ECHO_NONCE": uint64(HeaderEchoNonce), "H_GLEAN": uint64(HeaderGlean),

		"R_UP": uint64(LocatorUp), "R_LIF": uint64(LocatorInterface), "R_TXNONCE": uint64(LocatorTxNonce), "R_RXNONCE": uint64(LocatorRxNonce),
		"R_LOCAL": uint64(LocatorLocal), "R_PROBED": uint64(LocatorProbed),

		"S_UP": uint64(dataplane.LocatorUp), "S_DOWN": uint64(dataplane.LocatorDown), "S_UNCONFIRMED": uint64(dataplane.LocatorUnconfirmed),
		"S_HEARD": uint64(dataplane.LocatorHeard),

		"HEAR_OWN": uint64(HearOwn), "HEAR_OPERATIONS": uint64(HearOperations), "HEAR_EVENTS": uint64(HearEvents), "HEAR_READS": uint64(HearReads), "HEAR_PACKETS": uint64(HearPackets),

		"T_INSTANCE": uint64(AttributeInstance), "T_EID": uint64(AttributeEID), "T_SOURCE": uint64(AttributeSource), "T_ACTION": uint64(AttributeAction),
		"T_TTL": uint64(AttributeTTL), "T_CREATED": uint64(AttributeCreated), "T_EXPIRES": uint64(AttributeExpires), "T_LAST_USED": uint64(AttributeLastUsed),
		"T_PACKETS": uint64(AttributePackets), "T_OCTETS": uint64(AttributeOctets), "T_INTERFACE": uint64(AttributeInterface),
		"T_LOCATOR_STATE": uint64(AttributeLocatorState), "T_STATUS_BITS": uint64(AttributeStatusBits),
		"T_RECEIVED_VERSION": uint64(AttributeReceivedVersion), "T_MTU": uint64(AttributeMTU), "T_ERROR": uint64(AttributeError), "T_LOST": uint64(AttributeLost),
		"T_COUNT": uint64(AttributeCount), "T_LISTEN": uint64(AttributeListen), "T_MISS_FORM": uint64(AttributeMissForm), "T_PACKET": uint64(AttributePacket),
		"T_WATCHED": uint64(AttributeWatched), "T_LOCAL_RLOC": uint64(AttributeLocalRLOC), "T_MISS_POLICY": uint64(AttributeMissPolicy),
		"T_WAIT_BOUNDS": uint64(AttributeWaitBounds), "T_COUNTER": uint64(AttributeCounter), "T_DROP": uint64(AttributeDrop), "T_OTHER": uint64(AttributeOther),
		"T_NONCE": uint64(AttributeNonce), "T_OTHER_VERSION": uint64(AttributeOtherVersion), "T_STATUS_BIT_COUNT": uint64(AttributeStatusBitCount),
		"T_ICMP": uint64(AttributeICMP), "T_MISS_POLICY_OF": uint64(AttributeMissPolicyOf), "T_HEADER": uint64(AttributeHeader), "T_ENCAPSULATION": uint64(AttributeEncapsulation), "T_LIST": uint64(AttributeList), "T_PATH": uint64(AttributePath),
		"T_HOPS": uint64(AttributeHops), "T_ROLE": uint64(AttributeRole), "T_RECURSION_DEPTH": uint64(AttributeRecursionDepth), "T_SIBLING": uint64(AttributeSibling),
		"T_RTR": uint64(AttributeRTR), "T_OUTER": uint64(AttributeOuter), "T_MARK_NATIVE": uint64(AttributeMarkNative),
		"T_FLOW": uint64(AttributeFlow), "T_TABLES": uint64(AttributeTables),
		"T_SUBFLOWS": uint64(AttributeSubflows), "T_PATH_IDENTIFICATION": uint64(AttributePathIdentification),

		"P_STRICT": uint64(lisp.HopStrict), "P_PROBE": uint64(lisp.HopProbe), "P_LOOKUP": uint64(lisp.HopLookup), "P_EXPLICIT": uint64(lisp.HopExplicit),
	}
}

// besides are numbers that the document has in its text.
var besides = map[string]uint64{
	"VERSION": Version, "MAX_MESSAGE": MaxMessage, "MAX_DATAGRAM": MaxDatagram, "MAX_RLOCS": MaxLocators, "MANDATORY": mandatory,
	"A_EID": addressEID, "A_EIDMASK": addressEIDMask, "A_RLOC": addressRLOC,
}

// namedItem is an item of a list that stands for a row: the name, further cells between brackets, the last cell.
var namedItem = regexp.MustCompile("^- `([A-Z_]+)` \\((.*?)\\): (.*)$")

// rows returns the cells of a document's tables and of the items of its lists, by the heading or the last word in
// backquotes above them.
func rows(t *testing.T) map[string][][]string {
	t.Helper()
	tables, under := map[string][][]string{}, ""
	for _, line := range documentLines(t) {
		switch {
		case strings.HasPrefix(line, "#"):
			under = strings.TrimLeft(line, "# ")
		case strings.HasPrefix(line, "`") && strings.HasSuffix(line, "`:"):
			under = strings.Trim(line, "`:")
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
			}
			tables[under] = append(tables[under], cells)
		}
		if item := namedItem.FindStringSubmatch(line); item != nil {
			tables[under] = append(tables[under], slices.Concat([]string{item[1]}, strings.Split(item[2], "; "), []string{item[3]}))
		}
	}
	return tables
}

// documentLines returns the lines of the document, each item of a list on one.
func documentLines(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if last := len(lines) - 1; last >= 0 && strings.HasPrefix(line, "  ") && strings.HasPrefix(lines[last], "- ") {
			lines[last] += " " + strings.TrimSpace(line)
		} else {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestDocumentHasEveryNumber(t *testing.T) {
	found := map[string]uint64{}
	tables := rows(t)
	delete(tables, "Values") // there the second column is an offset
	for _, table := range tables {
		for _, cells := range table {
			value, err := strconv.ParseUint(cells[1], 0, 64)
			if err == nil && regexp.MustCompile(`^[A-Z_]+$`).MatchString(cells[0]) {
				found[cells[0]] = value
			}
		}
	}
	for name := range maps.Keys(found) {
		if strings.HasPrefix(name, "T_") && numbers()[name] == 0 {
			t.Errorf("%s is in the document alone", name)
		}
	}
	compare(t, document, found, numbers())
}

func compare(t *testing.T, where string, got, want map[string]uint64) {
	t.Helper()
	for name, value := range want {
		if there, ok := got[name]; !ok || there != value {
			t.Errorf("%s: %s is %d (there: %v), want %d", where, name, there, ok, value)
		}
	}
}

// field is a field as the document has it.
type field struct {
	offset, octets int
	name           string
}

func TestDocumentHasEveryOffset(t *testing.T) {
	tables := rows(t)
	for under, want := range map[string][]field{
		"Header": {
			{offsetLength, 2, "length"}, {offsetVersion, 1, "version"}, {offsetType, 1, "type"}, {offsetFlags, 4, "flags"},
			{offsetAddresses, 2, "addrs"}, {offsetMapVersion, 2, "map_version"}, {offsetLocatorCount, 4, "rloc_count"}, {offsetPID, 4, "pid"},
			{offsetSeq, 4, "seq"}, {offsetErrno, 4, "errno"}, {offsetAttributes, 2, "attributes"}, {offsetReserved, 2, "reserved"},
		},
		"Metrics": {
			{offsetPriority, 1, "priority"}, {offsetWeight, 1, "weight"}, {offsetLocatorFlags, 2, "flags"}, {offsetMTU, 4, "mtu"},
			{offsetTxNonce, 4, "tx_nonce"}, {offsetRxNonce, 4, "rx_nonce"}, {offsetMulticastPriority, 1, "multicast_priority"},
			{offsetMulticastWeight, 1, "multicast_weight"}, {offsetSourcePort, 2, "source_port"},
		},
		"sockaddr_in":  {{0, 2, "family"}, {2, 2, "port"}, {4, 4, "address"}, {8, 8, "zero"}},
		"sockaddr_in6": {{0, 2, "family"}, {2, 2, "port"}, {4, 4, "flowinfo"}, {8, 16, "address"}, {24, 4, "scope_id"}},
		"Attributes":   {{0, 2, "number"}, {2, 2, "length"}},
	} {
		var got []field
		end := 0
		for _, cells := range tables[under] {
			offset, err1 := strconv.Atoi(cells[0])
			octets, err2 := strconv.Atoi(cells[1])
			if err1 == nil && err2 == nil {
				got = append(got, field{offset, octets, cells[2]})
				if offset != end {
					t.Errorf("%s: %s begins at %d, but the field before ends at %d", under, cells[2], offset, end)
				}
				end = offset + octets
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the document has %v, the code %v", under, got, want)
		}
	}
	for _, cells := range tables["Attributes"] {
		number, err := strconv.Atoi(cells[1])
		if err != nil || !strings.HasPrefix(cells[0], "T_") {
			continue
		}
		form := attributeForms[Attribute(number)]
		octets := strconv.Itoa(form.min)
		if form.min != form.max {
			octets = fmt.Sprintf("%d–%d", form.min, form.max)
		}
		if cells[2] != octets {
			t.Errorf("%s: the document says %s octets, the code %s", cells[0], cells[2], octets)
		}
		if repeated := strings.HasSuffix(cells[3], "; several"); repeated != form.repeated {
			t.Errorf("%s: several: %v in the document, %v in the code", cells[0], repeated, form.repeated)
		}
	}
}

// The fields inside of values stand where the document says: a message with known
// values is looked at by the document's offsets.
func TestDocumentHasTheOffsetsOfValues(t *testing.T) {
	m := full()
	u16 := func(v uint16) []byte { return order.AppendUint16(nil, v) }
	u32 := func(v uint32) []byte { return order.AppendUint32(nil, v) }
	u64 := func(v uint64) []byte { return order.AppendUint64(nil, v) }
	hop := func(port uint16, bits, octets byte) []byte {
		return append(order.AppendUint16(nil, port), bits, octets)
	}
	want := map[string][]byte{
		"T_SOURCE kind": {1}, "T_SOURCE bits": {32}, "T_SOURCE octets": {10, 1, 0, 1},
		"T_CREATED seconds": u64(1700000000), "T_CREATED nanoseconds": u32(123456789),
		"T_ERROR offset": u32(24), "T_ERROR text": []byte("no such entry"),
		"T_WATCHED side, hook, forwarding and VLAN": u32(1), "T_WATCHED instance": u32(0), "T_WATCHED name": []byte("eth0"),
		"T_MISS_POLICY_OF instance": u32(7), "T_MISS_POLICY_OF policy": u32(3),
		"T_WAIT_BOUNDS packets_per_destination": u64(256), "T_WAIT_BOUNDS packets_total": u64(8192),
		"T_WAIT_BOUNDS octets_total": u64(64 << 20), "T_WAIT_BOUNDS time": u64(5e9),
		"T_HEADER bits": u32(0xE), "T_HEADER source_check": u32(2), "T_HEADER echo_wait": u64(3e9), "T_HEADER echo_interval": u64(4e9),
		"T_ENCAPSULATION encapsulation": u32(1), "T_ENCAPSULATION bits": u32(24), "T_ENCAPSULATION address": {192, 0, 2, 0},
		"T_LIST packets and address": u32(0x100), "T_LIST instance": u32(7), "T_LIST prefixes": {0, 8, 4, 0, 10, 0, 0, 0, 1, 16, 4, 0, 10, 9, 0, 0},
		"T_PATH mtu": u32(1480), "T_PATH bits": u32(1), "T_PATH asked": append(u64(1700000001), 0, 0, 0, 0), "T_PATH echoed": append(u64(1700000002), 5, 0, 0, 0),
		"T_PATH missing": make([]byte, 12), "T_PATH address": {192, 0, 2, 9},
		"T_HOPS locator": u32(1), "T_HOPS next": u32(1),
		"T_HOPS hops": append(append(hop(40001, 9, 16), 0x20, 0x01, 0x0d, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2), append(hop(0, 14, 4), 192, 0, 2, 3)...),
		"T_ROLE role": u32(1), "T_ROLE instance": u32(7), "T_ROLE prefixes": {0, 8, 4, 0, 10, 0, 0, 0, 1, 24, 4, 0, 198, 51, 100, 0},
		"T_OUTER source_port": u16(4342), "T_OUTER destination_port": u16(4341), "T_OUTER addresses": {192, 0, 2, 8, 192, 0, 2, 1},
		"T_FLOW protocol": {6}, "T_FLOW source_port": u16(40000), "T_FLOW destination_port": u16(443),
		"T_FLOW EIDs":     {10, 1, 0, 1, 10, 2, 0, 1},
		"T_COUNTER value": u64(9), "T_COUNTER name": []byte("miss_packets"),
	}
	values := valuesOf(written(t, nil, m))
	for _, cells := range rows(t)["Values"] {
		offset, err := strconv.Atoi(cells[1])
		if err != nil {
			continue
		}
		name := cells[0] + " " + cells[3]
		value := values[Attribute(numbers()[cells[0]])][offset:]
		if octets, err := strconv.Atoi(cells[2]); err == nil {
			value = value[:octets]
		}
		if !bytes.Equal(value, want[name]) {
			t.Errorf("%s at offset %d is %x, want %x", name, offset, value, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is not in the document", name)
	}
}

// valuesOf finds the first value of each attribute.
func valuesOf(b []byte) map[Attribute][]byte {
	values := map[Attribute][]byte{}
	for at := int(order.Uint16(b[offsetAttributes:])); at < len(b); {
		a, octets := Attribute(order.Uint16(b[at:]))&^mandatory, int(order.Uint16(b[at+2:]))
		at += attributeHeaderSize
		if values[a] == nil {
			values[a] = b[at : at+octets]
		}
		at += padded(octets)
	}
	return values
}

func TestDocumentHasEveryErrno(t *testing.T) {
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range errnos {
		name := unix.ErrnoName(known.errno)
		if known.errno == unix.EOPNOTSUPP { // Linux has two names for the number
			name = "EOPNOTSUPP"
		}
		if !bytes.Contains(content, []byte("| `"+name+"` |")) {
			t.Errorf("%s is not in the document", known.errno)
		}
	}
}

// The C header has the same numbers and, by the compiler's word, the same layout.
func TestHeaderAgrees(t *testing.T) {
	testnet.RequireProgram(t, "gcc")
	content, err := os.ReadFile("c/mapsock.h")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]uint64{}
	for _, match := range regexp.MustCompile(`(?m)^(?:#define |\t)MAPSOCK_([A-Z_]+)(?: =)? (0x[0-9a-f]+|[0-9]+)u?,?$`).FindAllSubmatch(content, -1) {
		value, err := strconv.ParseUint(string(match[2]), 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		found[string(match[1])] = value
	}
	compare(t, "mapsock.h", found, numbers())
	compare(t, "mapsock.h", found, besides)
	if len(found) != len(numbers())+len(besides) {
		t.Errorf("mapsock.h has %d numbers, the code %d", len(found), len(numbers())+len(besides))
	}
	compile(t, "-fsyntax-only", "-x", "c", "c/mapsock.h")
}

// The header compiles by itself as every C and C++ since 1998, and compilers have nothing to say.
func TestHeaderCompilesInEveryLanguage(t *testing.T) {
	testnet.RequireProgram(t, "gcc")
	compiler := map[string]string{"c": "gcc", "c++": "gcc"}
	if path, err := exec.Command("gcc", "-print-prog-name=cc1plus").Output(); err != nil || !filepath.IsAbs(strings.TrimSpace(string(path))) {
		testnet.RequireProgram(t, "clang-16") // this gcc has no C++; what rebuilds the programs of the data plane has
		compiler["c++"] = "clang-16"
	}
	for _, language := range []struct{ name, standard string }{
		{"c", "c99"}, {"c", "c11"}, {"c", "c17"}, {"c++", "c++98"}, {"c++", "c++11"}, {"c++", "c++20"},
	} {
		command := exec.Command(compiler[language.name], "-x", language.name, "-std="+language.standard, "-pedantic", "-Wall", "-Wextra", "-Werror",
			"-I", "c", "-fsyntax-only", "-")
		command.Stdin = strings.NewReader("#include <mapsock.h>\nint main() { return mapsock_size(AF_INET) == 0; }\n")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", language.standard, err, output)
		}
	}
}

// compile demands that gcc has nothing to say.
func compile(t *testing.T, arguments ...string) {
	t.Helper()
	output, err := exec.Command("gcc", append([]string{"-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, output)
	}
}

// What C's inline functions write reads here, and what is written here reads there.
func TestHeaderReadsAndWrites(t *testing.T) {
	testnet.RequireProgram(t, "gcc")
	directory := t.TempDir()
	program := directory + "/write"
	source := directory + "/write.c"
	if err := os.WriteFile(source, []byte(writeInC), 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, "-I", "c", "-o", program, source)
	command := exec.Command(program)
	command.Stdin = bytes.NewReader(written(t, nil, full()))
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	n, err := m.Parse(output)
	if err != nil {
		t.Fatal(err)
	}
	if n != len(output) || m.Type != TypeAdd || m.Flags != FlagReplace || m.Seq != 42 || m.Prefix.String() != "[7]2001:db8::/33" {
		t.Errorf("C wrote %s", &m)
	}
	want := lisp.NewLocator(up("192.0.2.1").RLOC)
	want.Priority, want.Weight = 3, 50
	if len(m.Locators) != 1 || m.Locators[0] != (Locator{Locator: want}) {
		t.Errorf("C wrote locators %+v, want %+v", m.Locators, want)
	}
}

const writeInC = `
#include "mapsock.h"
#include <arpa/inet.h>
#include <stdio.h>
#define NEED(x) do { if (!(x)) { fprintf(stderr, "not: %s\n", #x); return 1; } } while (0)
int main(void)
{
	static unsigned char in[MAPSOCK_MAX_DATAGRAM], out[MAPSOCK_MAX_MESSAGE];
	size_t length = fread(in, 1, sizeof(in), stdin), offset = 0, at = sizeof(struct mapsock_header), size, cut;
	struct mapsock_header header;
	struct mapsock_metrics metrics;
	struct mapsock_writer w;
	struct sockaddr_in6 eid = {.sin6_family = AF_INET6};
	struct sockaddr_in rloc = {.sin_family = AF_INET};
	const unsigned char *message = mapsock_next(in, length, &offset, &header);
	const void *value;

	NEED(message && offset == length && header.type == MAPSOCK_ADD && header.pid == 4711 && header.error == ESRCH);
	NEED(header.map_version == 0xABC && header.rloc_count == 2 && header.addrs == 7 && header.seq == 42);
	NEED(mapsock_address(message, &at) && mapsock_address(message, &at) && mapsock_address(message, &at));
	memcpy(&metrics, message + at, sizeof(metrics));
	NEED(metrics.priority == 1 && metrics.weight == 50 && metrics.multicast_priority == 255 && metrics.multicast_weight == 3);
	NEED(metrics.flags == (MAPSOCK_R_UP | MAPSOCK_R_LOCAL | MAPSOCK_R_PROBED));
	at += sizeof(metrics);
	NEED(mapsock_address(message, &at));
	memcpy(&metrics, message + at, sizeof(metrics));
	NEED(metrics.mtu == 1500 && metrics.tx_nonce == 1 && metrics.rx_nonce == 2);
	at += sizeof(metrics);
	NEED(!mapsock_address(message, &at));
	value = mapsock_find(message, MAPSOCK_T_INTERFACE, &size);
	NEED(value && size == 5 && memcmp(value, "site0", 5) == 0);
	NEED(!mapsock_find(message, 4000, &size) && !mapsock_next(in, length, &offset, &header));
	for (cut = 0; cut < length; cut++) {
		offset = 0;
		NEED(!mapsock_next(in, cut, &offset, &header));
	}

	inet_pton(AF_INET6, "2001:db8::", &eid.sin6_addr);
	inet_pton(AF_INET, "192.0.2.1", &rloc.sin_addr);
	mapsock_begin(&w, out, MAPSOCK_ADD, MAPSOCK_F_REPLACE, 42);
	mapsock_put_eid(&w, &eid, 33);
	mapsock_put_rloc(&w, &rloc, 3, 50);
	mapsock_put_u32(&w, MAPSOCK_T_INSTANCE | MAPSOCK_MANDATORY, 7);
	fwrite(out, 1, mapsock_end(&w), stdout);
	return 0;
}
`

// Python's package and its example name the type of everything, so that mypy finds mistakes of those who use it.
func TestPythonIsTyped(t *testing.T) {
	testnet.RequireProgram(t, "mypy")
	command := exec.Command("mypy", "--strict", "--cache-dir="+t.TempDir(), ".")
	command.Dir = "python"
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("mypy --strict: %v\n%s", err, output)
	}
	for _, name := range []string{"mapsock/py.typed", "pyproject.toml"} {
		if _, err := os.Stat(filepath.Join("python", name)); err != nil {
			t.Errorf("not a package that declares its types (PEP 561): %v", err)
		}
	}
}

// Python's module has the same numbers, and reads and writes the same octets.
func TestPythonAgrees(t *testing.T) {
	testnet.RequireProgram(t, "python3")
	original := written(t, nil, full())
	command := exec.Command("python3", "-B", "-c", `
import json, sys, mapsock
message = list(mapsock.split(sys.stdin.buffer.read()))[0]
octets = message.encode()
print(json.dumps({
    "settings": mapsock.Message(mapsock.SET_SETTINGS, attributes=[
        mapsock.header_settings(mapsock.H_STATUS_BITS | mapsock.H_MAP_VERSIONS | mapsock.H_ECHO_NONCE, 2, 3, 4),
        mapsock.encapsulation(1, "192.0.2.0/24"), mapsock.encapsulation(2, "2001:db8::/32"), mapsock.encapsulation(2),
        mapsock.role(1, ["10.0.0.0/8"], 7, ["198.51.100.0/24"]), mapsock.role(2, ["2001:db8::/32"]), mapsock.u32(mapsock.T_RECURSION_DEPTH, 2),
        mapsock.access_list(1, 0, 7, ["10.0.0.0/8"], ["10.9.0.0/16"]), mapsock.access_list(0, 3, deny=["2001:db8:bad::/48"])]).encode().hex(),
    "numbers": {k: v for k, v in vars(mapsock).items() if k.isupper() and isinstance(v, int)},
    "octets": octets.hex(), "eid": message.eid, "source": message.source, "instance": message.instance, "error": message.error,
    "created": message.moment(mapsock.T_CREATED), "misses": message.counters["miss_packets"],
}))`)
	command.Dir = "python"
	command.Stdin = bytes.NewReader(original)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var said struct {
		Numbers            map[string]uint64
		Octets, Settings   string
		EID, Source, Error string
		Instance, Misses   int
		Created            float64
	}
	if err := json.Unmarshal(output, &said); err != nil {
		t.Fatal(err)
	}
	compare(t, "mapsock.py", said.Numbers, numbers())
	compare(t, "mapsock.py", said.Numbers, besides)
	if said.EID != "10.2.0.0/16" || said.Source != "10.1.0.1" || said.Instance != 7 || said.Error != "no such entry" || said.Misses != 9 || int(said.Created) != 1700000000 {
		t.Errorf("Python reads %+v", said)
	}
	written, err := hexMessage(said.Octets)
	if err != nil || !same(written, full()) {
		t.Errorf("Python writes %+v (%v), want %+v", written, err, full())
	}
	settings, err := hexMessage(said.Settings)
	if err != nil || settings.Header != full().Header || !slices.Equal(settings.Encapsulations, full().Encapsulations) || !reflect.DeepEqual(settings.Lists, full().Lists) ||
		!reflect.DeepEqual(settings.Roles, full().Roles) || settings.RecursionDepth != full().RecursionDepth {
		t.Errorf("Python writes settings %+v (%v), want those of %+v", settings, err, full())
	}
}

func hexMessage(text string) (*Message, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	m := &Message{}
	_, err = m.Parse(b)
	return m, err
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping sockets for C programs: the format of docs/mapsock.md, and a few functions
 * to write and read messages. The header stands alone, compiles as C99 and later and
 * as C++, needs Linux, and allocates nothing. Numbers are in host order, addresses are sockaddr_in and
 * sockaddr_in6. Every function that reads is safe on any octets.
 */
#ifndef MAPSOCK_H
#define MAPSOCK_H

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAPSOCK_VERSION 2
#define MAPSOCK_MAX_MESSAGE 65532
#define MAPSOCK_MAX_DATAGRAM 65536
#define MAPSOCK_MAX_RLOCS 32

/* Types. Up to 12 they are OpenLISP's. */
enum mapsock_type {
	MAPSOCK_ADD = 1,
	MAPSOCK_DELETE = 2,
	MAPSOCK_CHANGE = 3,
	MAPSOCK_GET = 4,
	MAPSOCK_MISS = 5,
	MAPSOCK_MISS_EID = 6,
	MAPSOCK_MISS_HEADER = 7,
	MAPSOCK_MISS_PACKET = 8,
	MAPSOCK_LSBITS = 9,
	MAPSOCK_LOCALSTALE = 10,
	MAPSOCK_REMOTESTALE = 11,
	MAPSOCK_NONCEMISMATCH = 12,
	MAPSOCK_FLUSH = 32,
	MAPSOCK_DUMP = 33,
	MAPSOCK_SET_LOCATOR_STATE = 34,
	MAPSOCK_DUMP_LOCATOR_STATES = 35,
	MAPSOCK_SET_SETTINGS = 36,
	MAPSOCK_GET_SETTINGS = 37,
	MAPSOCK_GET_COUNTERS = 38,
	MAPSOCK_LISTEN = 39,
	MAPSOCK_DETACH = 40,
	MAPSOCK_LOST = 41,
	MAPSOCK_UNREACHABLE = 42,
	MAPSOCK_MTU = 43,
	MAPSOCK_ZERO_COUNTERS = 44,
	MAPSOCK_GLEANED = 45,
	MAPSOCK_GET_PATHS = 46,
	MAPSOCK_DUMP_HEARD = 47,
	MAPSOCK_CONTROL_PACKET = 48,
	MAPSOCK_PUT_FLOW = 49,
	MAPSOCK_DELETE_FLOW = 50,
	MAPSOCK_DUMP_FLOWS = 51,
	MAPSOCK_SUBFLOW = 52
};

/* Flags. Up to DONE they are OpenLISP's. */
#define MAPSOCK_F_DB 0x1u
#define MAPSOCK_F_VERSIONING 0x2u
#define MAPSOCK_F_LOCBITS 0x4u
#define MAPSOCK_F_STATIC 0x8u
#define MAPSOCK_F_UP 0x10u
#define MAPSOCK_F_ALL 0x20u
#define MAPSOCK_F_EXPIRED 0x40u
#define MAPSOCK_F_NEGATIVE 0x80u
#define MAPSOCK_F_DONE 0x100u
#define MAPSOCK_F_OWN 0x10000u
#define MAPSOCK_F_REPLACE 0x20000u
#define MAPSOCK_F_MORE 0x40000u
#define MAPSOCK_F_AUTHORITATIVE 0x80000u
#define MAPSOCK_F_HANDED 0x100000u
#define MAPSOCK_F_SINCE 0x200000u
#define MAPSOCK_F_ECHO_NONCE 0x400000u
#define MAPSOCK_F_GLEANED 0x800000u
#define MAPSOCK_F_BY_NAT 0x2000000u
#define MAPSOCK_F_REGISTERED 0x4000000u
#define MAPSOCK_F_STALE 0x1000000u
#define MAPSOCK_F_FROM_CORE 0x8000000u

/* Bits of addrs. */
#define MAPSOCK_A_EID 0x1u
#define MAPSOCK_A_EIDMASK 0x2u
#define MAPSOCK_A_RLOC 0x4u

/* States of a locator, in T_LOCATOR_STATE. Packets go to the best that a mapping has: up,
 * then heard, then unconfirmed; never to one that is down. */
#define MAPSOCK_S_UP 0u
#define MAPSOCK_S_DOWN 1u
#define MAPSOCK_S_UNCONFIRMED 2u
#define MAPSOCK_S_HEARD 3u

/* Flags of a locator. Up to RXNONCE they are OpenLISP's. */
#define MAPSOCK_R_UP 0x1u
#define MAPSOCK_R_LIF 0x2u
#define MAPSOCK_R_TXNONCE 0x4u
#define MAPSOCK_R_RXNONCE 0x8u
#define MAPSOCK_R_LOCAL 0x10u
#define MAPSOCK_R_PROBED 0x20u

/* What a listener hears. */
#define MAPSOCK_HEAR_OWN 0x1u
#define MAPSOCK_HEAR_OPERATIONS 0x2u
#define MAPSOCK_HEAR_EVENTS 0x4u
#define MAPSOCK_HEAR_READS 0x8u
#define MAPSOCK_HEAR_PACKETS 0x10u

/* Attributes. With the bit MANDATORY, who does not know one refuses the message. */
#define MAPSOCK_MANDATORY 0x8000u
enum mapsock_attribute_type {
	MAPSOCK_T_INSTANCE = 1,
	MAPSOCK_T_EID = 2,
	MAPSOCK_T_SOURCE = 3,
	MAPSOCK_T_ACTION = 4,
	MAPSOCK_T_TTL = 5,
	MAPSOCK_T_CREATED = 6,
	MAPSOCK_T_EXPIRES = 7,
	MAPSOCK_T_LAST_USED = 8,
	MAPSOCK_T_PACKETS = 9,
	MAPSOCK_T_OCTETS = 10,
	MAPSOCK_T_INTERFACE = 11,
	MAPSOCK_T_LOCATOR_STATE = 12,
	MAPSOCK_T_STATUS_BITS = 13,
	MAPSOCK_T_RECEIVED_VERSION = 14,
	MAPSOCK_T_MTU = 15,
	MAPSOCK_T_ERROR = 16,
	MAPSOCK_T_LOST = 17,
	MAPSOCK_T_COUNT = 18,
	MAPSOCK_T_LISTEN = 19,
	MAPSOCK_T_MISS_FORM = 20,
	MAPSOCK_T_PACKET = 21,
	MAPSOCK_T_WATCHED = 22,
	MAPSOCK_T_LOCAL_RLOC = 23,
	MAPSOCK_T_MISS_POLICY = 24,
	MAPSOCK_T_WAIT_BOUNDS = 25,
	MAPSOCK_T_COUNTER = 26,
	MAPSOCK_T_DROP = 27,
	MAPSOCK_T_OTHER = 28,
	MAPSOCK_T_NONCE = 29,
	MAPSOCK_T_OTHER_VERSION = 30,
	MAPSOCK_T_STATUS_BIT_COUNT = 31,
	MAPSOCK_T_ICMP = 32,
	MAPSOCK_T_MISS_POLICY_OF = 33,
	MAPSOCK_T_HEADER = 34,
	MAPSOCK_T_ENCAPSULATION = 35,
	MAPSOCK_T_LIST = 36,
	MAPSOCK_T_PATH = 37,
	MAPSOCK_T_HOPS = 38,
	MAPSOCK_T_ROLE = 39,
	MAPSOCK_T_RECURSION_DEPTH = 40,
	MAPSOCK_T_SIBLING = 41,
	MAPSOCK_T_RTR = 42,
	MAPSOCK_T_OUTER = 43,
	MAPSOCK_T_MARK_NATIVE = 44,
	MAPSOCK_T_FLOW = 45,
	MAPSOCK_T_TABLES = 46,
	MAPSOCK_T_SUBFLOWS = 47,
	MAPSOCK_T_PATH_IDENTIFICATION = 48
};

/* What T_HOPS says of a hop: the S, P and L bits of RFC 8060, and that the hop came in an explicit locator path. */
#define MAPSOCK_P_STRICT 0x1u
#define MAPSOCK_P_PROBE 0x2u
#define MAPSOCK_P_LOOKUP 0x4u
#define MAPSOCK_P_EXPLICIT 0x8u

/* What data headers tell, in the first four octets of T_HEADER. */
#define MAPSOCK_H_PUBLIC_INTERNET 0x1u
#define MAPSOCK_H_STATUS_BITS 0x2u
#define MAPSOCK_H_MAP_VERSIONS 0x4u
#define MAPSOCK_H_ECHO_NONCE 0x8u
#define MAPSOCK_H_GLEAN 0x10u

/* What every message begins with. Then: EID, its mask, locators, attributes. */
struct mapsock_header {
	uint16_t length; /* of the whole message, a multiple of 4 */
	uint8_t version;
	uint8_t type;
	uint32_t flags;
	uint16_t addrs;
	uint16_t map_version;
	int32_t rloc_count;
	int32_t pid;
	uint32_t seq;
	int32_t error;	     /* an errno; the name errno is a macro */
	uint16_t attributes; /* where they begin */
	uint16_t reserved;   /* 0 */
};

/* What follows the address of a locator. */
struct mapsock_metrics {
	uint8_t priority;
	uint8_t weight;
	uint16_t flags;
	uint32_t mtu;
	uint32_t tx_nonce;
	uint32_t rx_nonce;
	uint8_t multicast_priority;
	uint8_t multicast_weight;
	uint16_t source_port; /* that packets leave from; 0: that of each flow */
};

/* What an attribute begins with; the value follows, padded to a multiple of 4. */
struct mapsock_attribute {
	uint16_t type;
	uint16_t length; /* of the value, without padding */
};

/* An array of -1 octets does not compile: what _Static_assert is to C11 and static_assert to C++11. */
#define MAPSOCK_ASSERT(name, condition) typedef char mapsock_assert_##name[(condition) ? 1 : -1]

MAPSOCK_ASSERT(size_of_header, sizeof(struct mapsock_header) == 32);
MAPSOCK_ASSERT(header_version, offsetof(struct mapsock_header, version) == 2);
MAPSOCK_ASSERT(header_type, offsetof(struct mapsock_header, type) == 3);
MAPSOCK_ASSERT(header_flags, offsetof(struct mapsock_header, flags) == 4);
MAPSOCK_ASSERT(header_addrs, offsetof(struct mapsock_header, addrs) == 8);
MAPSOCK_ASSERT(header_map_version, offsetof(struct mapsock_header, map_version) == 10);
MAPSOCK_ASSERT(header_rloc_count, offsetof(struct mapsock_header, rloc_count) == 12);
MAPSOCK_ASSERT(header_pid, offsetof(struct mapsock_header, pid) == 16);
MAPSOCK_ASSERT(header_seq, offsetof(struct mapsock_header, seq) == 20);
MAPSOCK_ASSERT(header_error, offsetof(struct mapsock_header, error) == 24);
MAPSOCK_ASSERT(header_attributes, offsetof(struct mapsock_header, attributes) == 28);
MAPSOCK_ASSERT(header_reserved, offsetof(struct mapsock_header, reserved) == 30);
MAPSOCK_ASSERT(size_of_metrics, sizeof(struct mapsock_metrics) == 20);
MAPSOCK_ASSERT(metrics_weight, offsetof(struct mapsock_metrics, weight) == 1);
MAPSOCK_ASSERT(metrics_flags, offsetof(struct mapsock_metrics, flags) == 2);
MAPSOCK_ASSERT(metrics_mtu, offsetof(struct mapsock_metrics, mtu) == 4);
MAPSOCK_ASSERT(metrics_tx_nonce, offsetof(struct mapsock_metrics, tx_nonce) == 8);
MAPSOCK_ASSERT(metrics_rx_nonce, offsetof(struct mapsock_metrics, rx_nonce) == 12);
MAPSOCK_ASSERT(metrics_multicast_priority, offsetof(struct mapsock_metrics, multicast_priority) == 16);
MAPSOCK_ASSERT(metrics_multicast_weight, offsetof(struct mapsock_metrics, multicast_weight) == 17);
MAPSOCK_ASSERT(metrics_source_port, offsetof(struct mapsock_metrics, source_port) == 18);
MAPSOCK_ASSERT(size_of_attribute, sizeof(struct mapsock_attribute) == 4);
MAPSOCK_ASSERT(size_of_sockaddr_in, sizeof(struct sockaddr_in) == 16 && offsetof(struct sockaddr_in, sin_addr) == 4);
MAPSOCK_ASSERT(size_of_sockaddr_in6, sizeof(struct sockaddr_in6) == 28 && offsetof(struct sockaddr_in6, sin6_addr) == 8);

/* mapsock_open connects to a socket: a file descriptor, or -1 with errno. */
static inline int mapsock_open(const char *path)
{
	struct sockaddr_un name;
	int fd;

	if (strlen(path) >= sizeof(name.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memset(&name, 0, sizeof(name));
	name.sun_family = AF_UNIX;
	strcpy(name.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
		int why = errno;

		close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

/* mapsock_size is the length of an address of that family, 0 for none that fits. */
static inline size_t mapsock_size(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

/* A message that is being written: begin, EID, locators, attributes, in this order. */
struct mapsock_writer {
	struct mapsock_header header;
	unsigned char *octets; /* yours, MAPSOCK_MAX_MESSAGE of them */
	size_t length;
	int failed; /* something did not fit */
};

static inline void mapsock_put(struct mapsock_writer *w, const void *from, size_t length)
{
	size_t padding = (4 - length % 4) % 4;

	if (w->failed || length + padding > MAPSOCK_MAX_MESSAGE - w->length) {
		w->failed = 1;
		return;
	}
	memcpy(w->octets + w->length, from, length);
	memset(w->octets + w->length + length, 0, padding);
	w->length += length + padding;
}

static inline void mapsock_begin(struct mapsock_writer *w, void *octets, int type, uint32_t flags, uint32_t seq)
{
	memset(w, 0, sizeof(*w));
	w->octets = (unsigned char *)octets;
	w->header.version = MAPSOCK_VERSION;
	w->header.type = (uint8_t)type;
	w->header.flags = flags;
	w->header.seq = seq;
	w->header.attributes = sizeof(w->header);
	w->length = sizeof(w->header);
}

static inline void mapsock_put_address(struct mapsock_writer *w, const void *address, unsigned int bit)
{
	sa_family_t family;

	memcpy(&family, address, sizeof(family));
	if (mapsock_size(family) == 0) {
		w->failed = 1;
		return;
	}
	mapsock_put(w, address, mapsock_size(family));
	w->header.addrs |= (uint16_t)bit;
	w->header.attributes = (uint16_t)w->length;
}

/* mapsock_put_eid puts an EID (bits < 0) or an EID-Prefix; host bits must be 0. */
static inline void mapsock_put_eid(struct mapsock_writer *w, const void *address, int bits)
{
	struct sockaddr_in6 mask6;
	struct sockaddr_in mask;
	unsigned char *octets = (unsigned char *)&mask6.sin6_addr;
	void *use = &mask6;
	int i, all = 128;

	mapsock_put_address(w, address, MAPSOCK_A_EID);
	if (bits < 0 || w->failed)
		return;
	memset(&mask6, 0, sizeof(mask6));
	memset(&mask, 0, sizeof(mask));
	memcpy(&mask6.sin6_family, address, sizeof(mask6.sin6_family));
	if (mask6.sin6_family == AF_INET) {
		mask.sin_family = AF_INET;
		octets = (unsigned char *)&mask.sin_addr;
		use = &mask;
		all = 32;
	}
	for (i = 0; i < bits && i < all; i++)
		octets[i / 8] |= (unsigned char)(0x80 >> i % 8);
	mapsock_put_address(w, use, MAPSOCK_A_EIDMASK);
}

/* mapsock_put_rloc puts a locator that is up. Lower priorities win; 255 is unused. */
static inline void mapsock_put_rloc(struct mapsock_writer *w, const void *address, int priority, int weight)
{
	struct mapsock_metrics metrics;

	memset(&metrics, 0, sizeof(metrics));
	metrics.priority = (uint8_t)priority;
	metrics.weight = (uint8_t)weight;
	metrics.flags = MAPSOCK_R_UP;
	metrics.multicast_priority = 255;
	mapsock_put_address(w, address, MAPSOCK_A_RLOC);
	mapsock_put(w, &metrics, sizeof(metrics));
	w->header.rloc_count++;
	w->header.attributes = (uint16_t)w->length;
}

static inline void mapsock_put_attribute(struct mapsock_writer *w, unsigned int type, const void *value, size_t length)
{
	struct mapsock_attribute attribute;

	attribute.type = (uint16_t)type;
	attribute.length = (uint16_t)length;
	mapsock_put(w, &attribute, sizeof(attribute));
	mapsock_put(w, value, length);
}

static inline void mapsock_put_u32(struct mapsock_writer *w, unsigned int type, uint32_t value)
{
	mapsock_put_attribute(w, type, &value, sizeof(value));
}

/* mapsock_end completes the message and gives its length, 0 when it did not fit. */
static inline size_t mapsock_end(struct mapsock_writer *w)
{
	if (w->failed)
		return 0;
	w->header.length = (uint16_t)w->length;
	memcpy(w->octets, &w->header, sizeof(w->header));
	return w->length;
}

/*
 * mapsock_next finds the message at an offset of a datagram and moves the offset
 * behind it: its octets, with a copy of its header; NULL when there is none.
 */
static inline const unsigned char *mapsock_next(const void *datagram, size_t length, size_t *offset, struct mapsock_header *header)
{
	const unsigned char *at = (const unsigned char *)datagram + *offset;
	size_t left = length - *offset;

	if (*offset > length || left < sizeof(*header))
		return NULL;
	memcpy(header, at, sizeof(*header));
	if (header->version != MAPSOCK_VERSION || header->length < sizeof(*header) || header->length % 4 != 0 ||
	    header->length > left || header->attributes < sizeof(*header) || header->attributes > header->length)
		return NULL;
	*offset += header->length;
	return at;
}

/*
 * mapsock_address gives the address at an offset of a message that mapsock_next
 * found, and moves the offset behind it. The EID stands at sizeof(struct
 * mapsock_header), then come the mask and the locators, as addrs says.
 */
static inline const void *mapsock_address(const unsigned char *message, size_t *offset)
{
	struct mapsock_header header;
	const unsigned char *at = message + *offset;
	sa_family_t family;

	memcpy(&header, message, sizeof(header));
	if (*offset + sizeof(family) > header.attributes)
		return NULL;
	memcpy(&family, at, sizeof(family));
	if (mapsock_size(family) == 0 || *offset + mapsock_size(family) > header.attributes)
		return NULL;
	*offset += mapsock_size(family);
	return at;
}

/* mapsock_find gives the value of the first attribute of a type, NULL for none. */
static inline const void *mapsock_find(const unsigned char *message, unsigned int type, size_t *length)
{
	struct mapsock_header header;
	struct mapsock_attribute attribute;
	size_t at;

	memcpy(&header, message, sizeof(header));
	for (at = header.attributes; at + sizeof(attribute) <= header.length;) {
		memcpy(&attribute, message + at, sizeof(attribute));
		at += sizeof(attribute);
		if (at + attribute.length > header.length)
			return NULL;
		if ((attribute.type & ~MAPSOCK_MANDATORY) == type) {
			*length = attribute.length;
			return message + at;
		}
		at += (attribute.length + 3u) / 4 * 4;
	}
	return NULL;
}

#endif

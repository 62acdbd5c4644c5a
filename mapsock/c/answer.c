/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer: a control plane in C. It answers each miss on a mapping socket with the
 * locator of the EID-Prefix that covers it, and with "drop" where none does.
 *
 *     cc -std=c11 -o answer answer.c
 *     ./answer /run/loci/map.sock 10.2.0.0/24 192.0.2.2 2001:db8:2::/64 192.0.2.2
 */
#define _GNU_SOURCE
#include "mapsock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

struct rule {
	struct sockaddr_storage eid, rloc;
	int bits;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* read_address reads an address, and the length behind its slash when there is one. */
static int read_address(const char *text, struct sockaddr_storage *into, int *bits)
{
	char address[64];
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	struct sockaddr_in *v4 = (struct sockaddr_in *)into;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)into;

	memset(into, 0, sizeof(*into));
	if (length >= sizeof(address))
		return 0;
	memcpy(address, text, length);
	address[length] = 0;
	if (slash)
		*bits = atoi(slash + 1);
	into->ss_family = strchr(address, ':') ? AF_INET6 : AF_INET;
	return inet_pton(into->ss_family, address, into->ss_family == AF_INET ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr);
}

static const unsigned char *octets_of(const void *address)
{
	sa_family_t family;

	memcpy(&family, address, sizeof(family));
	return (const unsigned char *)address +
	       (family == AF_INET ? offsetof(struct sockaddr_in, sin_addr) : offsetof(struct sockaddr_in6, sin6_addr));
}

static int covers(const struct rule *rule, const void *eid)
{
	int i;

	if (memcmp(&rule->eid.ss_family, eid, sizeof(rule->eid.ss_family)) != 0)
		return 0;
	for (i = 0; i < rule->bits; i++)
		if ((octets_of(&rule->eid)[i / 8] ^ octets_of(eid)[i / 8]) & (0x80 >> i % 8))
			return 0;
	return 1;
}

/* answer adds the mapping for an EID that missed. */
static void answer(int fd, const unsigned char *miss, const struct rule *rules, int count)
{
	static unsigned char octets[MAPSOCK_MAX_MESSAGE];
	static uint32_t seq;
	struct mapsock_writer w;
	size_t offset = sizeof(struct mapsock_header), size = 0;
	const void *eid = mapsock_address(miss, &offset);
	const void *instance = mapsock_find(miss, MAPSOCK_T_INSTANCE, &size);
	int i = 0;

	if (!eid)
		return;
	while (i < count && !covers(&rules[i], eid))
		i++;
	mapsock_begin(&w, octets, MAPSOCK_ADD, MAPSOCK_F_REPLACE | (i < count ? 0 : MAPSOCK_F_NEGATIVE), ++seq);
	if (i < count) {
		mapsock_put_eid(&w, &rules[i].eid, rules[i].bits);
		mapsock_put_rloc(&w, &rules[i].rloc, 1, 100);
	} else {
		mapsock_put_eid(&w, eid, 128); /* all bits, of either family */
		mapsock_put_u32(&w, MAPSOCK_T_ACTION | MAPSOCK_MANDATORY, 3);
	}
	if (instance && size == sizeof(uint32_t))
		mapsock_put_attribute(&w, MAPSOCK_T_INSTANCE | MAPSOCK_MANDATORY, instance, size);
	if (send(fd, octets, mapsock_end(&w), MSG_NOSIGNAL) < 0)
		die("send");
}

int main(int argc, char **argv)
{
	static unsigned char datagram[MAPSOCK_MAX_DATAGRAM];
	static struct rule rules[64];
	int fd, i, count = (argc - 2) / 2;

	if (argc < 4 || argc % 2 != 0 || count > 64) {
		fprintf(stderr, "usage: %s SOCKET EID-PREFIX RLOC [EID-PREFIX RLOC ...]\n", argv[0]);
		return 2;
	}
	for (i = 0; i < count; i++) {
		if (read_address(argv[2 + 2 * i], &rules[i].eid, &rules[i].bits) != 1 || rules[i].bits < 0 ||
		    rules[i].bits > (rules[i].eid.ss_family == AF_INET ? 32 : 128) ||
		    read_address(argv[3 + 2 * i], &rules[i].rloc, &(int){0}) != 1) {
			fprintf(stderr, "%s %s: want an EID-Prefix and an RLOC\n", argv[2 + 2 * i], argv[3 + 2 * i]);
			return 2;
		}
	}
	if ((fd = mapsock_open(argv[1])) < 0)
		die(argv[1]);
	for (;;) {
		struct mapsock_header header;
		const unsigned char *message;
		size_t offset = 0;
		ssize_t length = recv(fd, datagram, sizeof(datagram), 0);

		if (length < 0)
			die("recv");
		if (length == 0)
			return 0; /* the data plane has gone */
		while ((message = mapsock_next(datagram, (size_t)length, &offset, &header))) {
			if (header.type == MAPSOCK_MISS_EID)
				answer(fd, message, rules, count);
			else if (header.flags & MAPSOCK_F_OWN && header.error)
				fprintf(stderr, "seq %u: %s\n", header.seq, strerror(header.error));
			else if (header.flags & MAPSOCK_F_OWN)
				printf("answered %u\n", header.seq), fflush(stdout);
		}
	}
}

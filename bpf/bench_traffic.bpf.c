/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Traffic of `loci bench`: a generator, sinks, and the barest router there can be. Nothing of the
 * data plane is in here, and the data plane includes nothing of it.
 *
 *   bench_generate   writes one numbered packet into each live frame of BPF_PROG_TEST_RUN and
 *                    sends it out
 *   bench_sink_tc    counts and verifies what arrives as skb, wherever tcx has put it
 *   bench_sink_xdp   the same for frames
 *   bench_stamp      starts a packet's clock anew on its way
 *   bench_redirect   other MAC addresses, other interface: what no router can be faster than
 *   bench_requested, bench_forwarded, bench_replied
 *                    when the Map-Request for a packet's destination left the ITR, when the
 *                    Map-Server forwarded it, and when the Map-Reply came
 *   bench_answer     an ETR (bench_answer.h)
 *
 * Live frames are recycled: the program that had one before may have moved its headers, so all of
 * it is written every time.
 *
 * An inner packet is 64 octets of IP and UDP. Its payload tells everything apart and leaves the UDP
 * checksum the same whatever the numbers are, because each number is there beside its complement:
 *
 *   0 magic (16 bits)  2 ~source port  4 sequence  8 ~sequence
 *   12 ~sum of the destination's words of 32 bits, with end-around carry
 */

//go:build ignore

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FRAME_MAX 192
#define PACKET_LENGTH 64
#define SLOTS 131072

#ifndef NULL
#define NULL ((void *)0)
#endif

/* Written by user space between runs, never during one. */
struct bench_settings {
	__u8 frame[FRAME_MAX];      /* what the generator sends */
	__u8 packet[PACKET_LENGTH]; /* the inner packet in it, as the sink compares it */
	__u64 first_destination; /* the half of an IPv6 address that differs, or an IPv4 address */
	__u32 frame_length;
	__u32 inner_offset; /* of the inner packet in the frame */
	__u32 family;
	__u32 ifindex;      /* where the generator sends */
	__u32 flows;        /* source ports one after the other, from first_port on */
	__u32 destinations; /* addresses one after the other, from first_destination on */
	__u32 fixed_sum;    /* of the words of the other half */
	__u32 checksum;     /* sum of the IPv4 header without checksum and destination */
	__u32 first_port;
	/* whether destinations are those of `addresses`, in the order of that list ... */
	__u32 listed;
	__u32 first_address; /* ... from this place on */
	/* whether IPv6 destinations differ in their first 64 bits, rather than in the others */
	__u32 upper;
	__u32 sink_offset;  /* of the inner packet in what arrives */
	__u32 stamp_offset; /* of the inner packet where the clock starts anew */
	__u32 ttl;          /* that arrives */
	__u32 record;       /* whether times go to `slots` */
	__u32 capture;      /* whether the sink keeps the next frame */
};

struct bench_counts {
	__u64 received; /* of ours, right ones */
	__u64 wrong;    /* of ours, but not what was sent */
	__u64 sequence_sum;
	__u64 repeated; /* only while times are recorded */
};

struct bench_slot {
	__u64 sent_ns;  /* CLOCK_MONOTONIC */
	__u64 delay_ns; /* 0: not arrived */
};

/* CLOCK_MONOTONIC, 0: not seen. */
struct bench_stages {
	__u64 requested_ns;
	__u64 forwarded_ns;
	__u64 replied_ns;
};

struct bench_hop {
	__u8 macs[12]; /* destination, source */
	__u32 ifindex;
};

struct bench_settings settings;
struct bench_hop hop;
__u32 next_sequence;
__u8 captured[FRAME_MAX];
__u32 captured_length;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bench_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct bench_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bench_stages);
} stages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} addresses SEC(".maps");

char _license[] SEC("license") = "GPL";

/* Where numbers stand in the inner packet of a family. */
static __always_inline __u32 udp_offset(void) { return settings.family == 4 ? 20 : 40; }

static __always_inline __u64 destination_of(__u32 sequence)
{
	__u32 n = settings.destinations;
	__u32 at = n > 1 ? sequence % n : 0;
	const __u64 *address;

	if (!settings.listed)
		return settings.first_destination + at;
	at += settings.first_address;
	address = bpf_map_lookup_elem(&addresses, &at);
	return address ? *address : 0;
}

/* What stands in a packet for the sum of its destination. */
static __always_inline __u32 complement_of(__u64 destination)
{
	__u64 sum = (destination >> 32) + (__u32)destination + settings.fixed_sum;

	sum = (sum >> 32) + (__u32)sum;
	sum += sum >> 32;
	return ~(__u32)sum;
}

static __always_inline __u16 port_of(__u32 sequence)
{
	__u32 n = settings.flows;

	return settings.first_port + (n > 1 ? sequence % n : 0);
}

static __always_inline __u16 header_checksum(__u32 destination)
{
	__u32 sum = settings.checksum + (destination >> 16) + (destination & 0xFFFF);

	sum = (sum >> 16) + (sum & 0xFFFF);
	sum += sum >> 16;
	return ~sum;
}

/* Copies the prepared frame; the last eight octets overlap those before. */
static __always_inline int write_frame(void *data, void *end)
{
	__u32 length = settings.frame_length;
	__u32 tail = (length - 8) & 0xFF;

	for (__u32 i = 0; i + 8 <= FRAME_MAX; i += 8) {
		if (i + 8 > length)
			break;
		if (data + i + 8 > end)
			return -1;
		*(__u64 *)(data + i) = *(__u64 *)(settings.frame + i);
	}
	if (tail > FRAME_MAX - 8 || data + tail + 8 > end)
		return -1;
	__builtin_memcpy(data + tail, settings.frame + tail, 8);
	return 0;
}

static __always_inline void write_numbers(__u8 *packet, __u32 sequence)
{
	__u64 destination = destination_of(sequence);
	__u16 port = port_of(sequence);
	__u8 *udp = packet + (settings.family == 4 ? 20 : 40);

	if (settings.family == 4) {
		*(__be16 *)(packet + 10) = bpf_htons(header_checksum(destination));
		*(__be32 *)(packet + 16) = bpf_htonl(destination);
	} else if (settings.upper) {
		*(__be64 *)(packet + 24) = bpf_cpu_to_be64(destination);
	} else {
		*(__be64 *)(packet + 32) = bpf_cpu_to_be64(destination);
	}
	*(__be16 *)udp = bpf_htons(port);
	*(__be16 *)(udp + 10) = bpf_htons(~port);
	*(__be32 *)(udp + 12) = bpf_htonl(sequence);
	*(__be32 *)(udp + 16) = bpf_htonl(~sequence);
	*(__be32 *)(udp + 20) = bpf_htonl(complement_of(destination));
}

SEC("xdp")
int bench_generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 sequence = next_sequence++;
	__u8 *packet = data + (settings.inner_offset & 0x7F);
	struct bench_slot *slot;

	if (write_frame(data, end) < 0 || (void *)packet + PACKET_LENGTH > end)
		return XDP_ABORTED;
	write_numbers(packet, sequence);
	if (settings.record) {
		slot = bpf_map_lookup_elem(&slots, &sequence);
		if (slot) {
			slot->delay_ns = 0;
			slot->sent_ns = bpf_ktime_get_ns();
		}
	}
	return bpf_redirect(settings.ifindex, 0);
}

static __always_inline bool is_ours(const __u8 *packet)
{
	const __u8 *udp = packet + (settings.family == 4 ? 20 : 40);
	const __u8 *wanted = settings.packet + udp_offset();

	return packet[0] >> 4 == settings.family && *(__u32 *)(udp + 2) == *(__u32 *)(wanted + 2) &&
	       *(__u16 *)(udp + 6) == *(__u16 *)(wanted + 6) &&
	       *(__u16 *)(udp + 8) == *(__u16 *)(wanted + 8);
}

/* An engine that joins packets has them numbered anew when they are cut again. Those that must not
 * be fragmented allow that (RFC 6864 s.4.1). */
static __always_inline bool is_right_id(const __u8 *packet)
{
	return packet[6] & 0x40 || *(__u16 *)(packet + 4) == *(__u16 *)(settings.packet + 4);
}

/* Everything before the payload but TTL, checksum and such an ID is as it was sent. */
static __always_inline bool is_right_ipv4(const __u8 *packet, __u32 destination)
{
	const __u8 *wanted = settings.packet;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < 20; i += 2)
		sum += *(__u16 *)(packet + i);
	sum = (sum >> 16) + (sum & 0xFFFF);
	sum += sum >> 16;
	return (sum & 0xFFFF) == 0xFFFF && *(__u32 *)packet == *(__u32 *)wanted &&
	       *(__u16 *)(packet + 6) == *(__u16 *)(wanted + 6) && is_right_id(packet) &&
	       packet[8] == settings.ttl && packet[9] == IPPROTO_UDP &&
	       *(__u32 *)(packet + 12) == *(__u32 *)(wanted + 12) &&
	       *(__be32 *)(packet + 16) == bpf_htonl(destination);
}

static __always_inline bool is_right_ipv6(const __u8 *packet, __u64 destination)
{
	const __u8 *wanted = settings.packet;
	const __u8 *differs = packet + 32, *fixed = packet + 24, *fixed_wanted = wanted + 24;

	if (settings.upper) {
		differs = packet + 24;
		fixed = packet + 32;
		fixed_wanted = wanted + 32;
	}
	return *(__u32 *)packet == *(__u32 *)wanted &&
	       *(__u16 *)(packet + 4) == *(__u16 *)(wanted + 4) && packet[6] == IPPROTO_UDP &&
	       packet[7] == settings.ttl && *(__u64 *)(packet + 8) == *(__u64 *)(wanted + 8) &&
	       *(__u64 *)(packet + 16) == *(__u64 *)(wanted + 16) &&
	       *(__u64 *)fixed == *(__u64 *)fixed_wanted &&
	       *(__be64 *)differs == bpf_cpu_to_be64(destination);
}

static __always_inline bool is_right(const __u8 *packet, __u32 sequence)
{
	const __u8 *udp = packet + (settings.family == 4 ? 20 : 40);
	__u64 destination = destination_of(sequence);
	__u16 port = port_of(sequence);

	if (*(__be32 *)(udp + 16) != bpf_htonl(~sequence) ||
	    *(__be32 *)(udp + 20) != bpf_htonl(complement_of(destination)) ||
	    *(__be16 *)udp != bpf_htons(port) || *(__be16 *)(udp + 10) != bpf_htons(~port))
		return false;
	return settings.family == 4 ? is_right_ipv4(packet, destination)
				    : is_right_ipv6(packet, destination);
}

static __always_inline void record(struct bench_counts *c, __u32 sequence, __u64 now)
{
	struct bench_slot *slot = bpf_map_lookup_elem(&slots, &sequence);

	if (!slot)
		return;
	if (slot->delay_ns)
		c->repeated++;
	else
		slot->delay_ns = now - slot->sent_ns;
}

/* Counts a packet and says whether it was ours. */
static __always_inline bool take(const __u8 *packet)
{
	__u64 now = settings.record ? bpf_ktime_get_ns() : 0;
	__u32 zero = 0, sequence;
	struct bench_counts *c = bpf_map_lookup_elem(&counts, &zero);

	if (!c || !is_ours(packet))
		return false;
	sequence = bpf_ntohl(*(__be32 *)(packet + udp_offset() + 12));
	if (!is_right(packet, sequence)) {
		c->wrong++;
		return true;
	}
	c->received++;
	c->sequence_sum += sequence;
	if (settings.record)
		record(c, sequence, now);
	return true;
}

static __always_inline void keep(struct __sk_buff *skb)
{
	__u32 length = skb->len;

	if (length < ETH_HLEN || length > FRAME_MAX)
		return;
	if (bpf_skb_load_bytes(skb, 0, captured, length) < 0)
		return;
	captured_length = length;
	settings.capture = 0;
}

/* The inner packet at an offset, in the linear part; NULL when the skb ends before its end. */
static __always_inline __u8 *packet_at(struct __sk_buff *skb, __u32 offset)
{
	__u8 *packet = (void *)(long)skb->data + (offset & 0x7F);

	if ((void *)packet + PACKET_LENGTH <= (void *)(long)skb->data_end)
		return packet;
	if (bpf_skb_pull_data(skb, (offset & 0x7F) + PACKET_LENGTH) < 0)
		return NULL;
	packet = (void *)(long)skb->data + (offset & 0x7F);
	return (void *)packet + PACKET_LENGTH <= (void *)(long)skb->data_end ? packet : NULL;
}

SEC("tc")
int bench_sink_tc(struct __sk_buff *skb)
{
	__u8 *packet = packet_at(skb, settings.sink_offset);

	if (!packet || !take(packet))
		return TC_ACT_UNSPEC;
	if (settings.capture)
		keep(skb);
	return TC_ACT_SHOT;
}

SEC("tc")
int bench_stamp(struct __sk_buff *skb)
{
	__u8 *packet = packet_at(skb, settings.stamp_offset);
	struct bench_slot *slot;
	__u32 sequence;

	if (!packet || !is_ours(packet))
		return TC_ACT_UNSPEC;
	sequence = bpf_ntohl(*(__be32 *)(packet + udp_offset() + 12));
	slot = bpf_map_lookup_elem(&slots, &sequence);
	if (slot)
		slot->sent_ns = bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int bench_sink_xdp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *packet = data + (settings.sink_offset & 0x7F);

	if ((void *)packet + PACKET_LENGTH > end || !take(packet))
		return XDP_PASS;
	return XDP_DROP;
}

SEC("xdp")
int bench_redirect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + sizeof(hop.macs) > end)
		return XDP_ABORTED;
	__builtin_memcpy(data, hop.macs, sizeof(hop.macs));
	return bpf_redirect(hop.ifindex, 0);
}

/* An EID-Prefix ends a Map-Request of one record; in a Map-Reply of one record with one IPv4
 * locator, the locator follows. */
#define AFTER_EID_IN_REQUEST 0
#define AFTER_EID_IN_REPLY 12

/* The stages of the packet whose destination's low 32 bits end so many octets before the end of a
 * control message. */
static __always_inline struct bench_stages *stages_of(struct __sk_buff *skb, __u32 after)
{
	__u32 sequence;
	__be32 destination;

	if (skb->len < ETH_HLEN + sizeof(destination) + after ||
	    bpf_skb_load_bytes(skb, skb->len - sizeof(destination) - after, &destination,
			       sizeof(destination)) < 0)
		return NULL;
	sequence = bpf_ntohl(destination) - (__u32)settings.first_destination;
	return bpf_map_lookup_elem(&stages, &sequence);
}

#include "bench_answer.h"

SEC("tc")
int bench_requested(struct __sk_buff *skb)
{
	struct bench_stages *s = stages_of(skb, AFTER_EID_IN_REQUEST);

	if (s && !s->requested_ns)
		s->requested_ns = bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

SEC("tc")
int bench_forwarded(struct __sk_buff *skb)
{
	struct bench_stages *s = stages_of(skb, AFTER_EID_IN_REQUEST);

	if (s && !s->forwarded_ns)
		s->forwarded_ns = bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

SEC("tc")
int bench_replied(struct __sk_buff *skb)
{
	struct bench_stages *s = stages_of(skb, AFTER_EID_IN_REPLY);

	if (s && !s->replied_ns)
		s->replied_ns = bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

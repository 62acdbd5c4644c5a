/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#include "maps.h"

char _license[] SEC("license") = "GPL";

volatile const __u32 lisp_decap_l3_flags = 0;

const union lisp_abi *lisp_abi_in_btf __attribute__((unused));

SEC("tc") int site_ingress(struct __sk_buff *skb) { (void)skb; return lisp_decap_l3_flags ? -1 : -1; }
SEC("tc") int core_ingress(struct __sk_buff *skb) { (void)skb; return -1; }
SEC("tc") int core_egress(struct __sk_buff *skb) { (void)skb; return -1; }
SEC("tc") int lisp_egress(struct __sk_buff *skb) { (void)skb; return -1; }
SEC("tc") int lisp_ingress(struct __sk_buff *skb) { (void)skb; return -1; }

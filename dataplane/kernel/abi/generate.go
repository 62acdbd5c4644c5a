// SPDX-License-Identifier: Apache-2.0

// This file says how the BPF objects and Go's mirror of bpf/abi.h are generated (`make generate`, or `go generate` here;
// it needs clang-16, llvm-16 and libbpf-dev). It never holds code: the objects are committed so that building Loci
// needs no compiler for C, and a test proves that they match their source.

package abi

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -no-global-types -type lisp_cell -type lisp_compressed -type lisp_entry -type lisp_root_kind -type lisp_roots -type lisp_instance -type lisp_mapping_flag -type lisp_action -type lisp_mapping -type lisp_mapping_counters -type lisp_encapsulation -type lisp_locator_flag -type lisp_locator -type lisp_locator_set -type lisp_interface_flag -type lisp_interface -type lisp_interface_slot -type lisp_rloc_key -type lisp_setting_flag -type lisp_miss_policy -type lisp_settings -type lisp_generations -type lisp_action_record -type lisp_flow -type lisp_what -type lisp_counter -type lisp_drop -type lisp_counter_index -type lisp_peer -type lisp_heard -type lisp_backlog -type lisp_event_kind -type lisp_event -type lisp_limit_key -type lisp_tap_magic -type lisp_tap_reason -type lisp_tap_header -type lisp_step_kind -type lisp_step -type lisp_vlan_key -type lisp_list_kind -type lisp_list_key -type lisp_list_entry -type lisp_watch_flag -type lisp_watch -type lisp_sample -type lisp_binding_key -type lisp_binding -type lisp_subflow lisptc ../../../bpf/lisp_tc.bpf.c -- -O2 -g -Wall -Wextra -Werror -mcpu=v3 -I../../../bpf -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target bpfel -no-global-types lispxdp ../../../bpf/lisp_xdp.bpf.c -- -O2 -g -Wall -Wextra -Werror -mcpu=v3 -I../../../bpf -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

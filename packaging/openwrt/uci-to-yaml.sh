# SPDX-License-Identifier: Apache-2.0
#
# Writes what UCI's configuration "loci" says as YAML to standard output: uci_to_yaml, after /lib/functions.sh,
# /lib/functions/network.sh and config_load loci.
# It leaves mistakes for `loci check` to tell. For any POSIX shell that has `local`, as busybox ash.
# shellcheck shell=ash disable=SC3043

# yaml_text TEXT: the text as YAML, whatever is in it.
yaml_text() {
	printf "'%s'" "$(printf %s "$1" | tr '\n' ' ' | sed "s/'/''/g")"
}

# yaml_item TEXT: one of a list in brackets.
yaml_item() {
	printf '%s%s' "$loci_comma" "$(yaml_text "$1")"
	loci_comma=', '
}

# yaml_list KEY SECTION OPTION [EACH]: a list in brackets, unless it is empty; EACH writes an item.
yaml_list() {
	local first
	config_get first "$2" "$3"
	if [ -z "$first" ]; then return; fi
	loci_comma=
	printf '%s: [' "$1"
	config_list_foreach "$2" "$3" "${4:-yaml_item}"
	printf ']\n'
}

# yaml_interface NAME: the device of an interface of /etc/config/network, or a device.
yaml_interface() {
	local device
	network_get_device device "$1" || device=$1
	yaml_item "$device"
}

# yaml_value KEY SECTION OPTION: a value, also where there is none.
yaml_value() {
	local value
	config_get value "$2" "$3"
	printf '%s: %s\n' "$1" "$(yaml_text "$value")"
}

# yaml_option KEY SECTION OPTION: a value, unless there is none.
yaml_option() {
	local value
	config_get value "$2" "$3"
	if [ -n "$value" ]; then printf '%s: %s\n' "$1" "$(yaml_text "$value")"; fi
}

yaml_address() {
	printf '%s{address: %s}' "$loci_comma" "$(yaml_text "$1")"
	loci_comma=', '
}

# yaml_once HEADING: the heading of a list of sections, before the first.
yaml_once() {
	if [ "$loci_heading" != "$1" ]; then printf '%s\n' "$1"; fi
	loci_heading=$1
}

yaml_mapping() {
	yaml_once '  map-cache:
    mappings:'
	yaml_value '      - eid' "$1" prefix
	yaml_list '        rlocs' "$1" rloc yaml_address
}

yaml_map_server() {
	local value
	yaml_once '  map-servers:'
	yaml_value '    - ms-address' "$1" address
	printf '      authentication-keys:\n'
	yaml_value '        - auth-key-value' "$1" key
	yaml_option '          auth-algorithm-id' "$1" algorithm
	config_get_bool value "$1" proxy_reply 0
	if [ "$value" = 1 ]; then printf '      proxy-reply: true\n'; fi
}

yaml_eid() {
	yaml_once '  local-eids:'
	yaml_value '    - eid' "$1" prefix
}

# yaml_nat: how the router gets through NATs, unless nothing is said about it.
yaml_nat() {
	local protocol rtr keepalive
	config_get protocol loci nat_protocol
	config_get rtr loci nat_rtr
	config_get keepalive loci nat_keepalive
	if [ -z "$protocol$rtr$keepalive" ]; then return; fi
	printf '  nat-traversal:\n'
	yaml_option '    protocol' loci nat_protocol
	yaml_option '    rtr' loci nat_rtr
	yaml_option '    keepalive' loci nat_keepalive
}

uci_to_yaml() {
	loci_heading=
	printf '# Made of /etc/config/loci; changes here are lost.\ninterfaces:\n'
	yaml_list '  site' loci site yaml_interface
	yaml_list '  core' loci core yaml_interface
	printf 'itr:\n'
	yaml_list '  map-resolvers' loci map_resolver
	config_foreach yaml_mapping mapping
	printf 'etr:\n'
	config_foreach yaml_map_server map_server
	config_foreach yaml_eid eid
	yaml_nat
	printf 'datapath:\n'
	yaml_option '  engine' loci engine
	printf 'logging:\n'
	yaml_option '  level' loci log_level
}

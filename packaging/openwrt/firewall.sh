# SPDX-License-Identifier: Apache-2.0
#
# Opens OpenWrt's firewall for Loci: firewall_open CONFIGURATION, by a file in the form of loci.yaml. Each section is made once, for the
# roles that the file has: what the operator removed or changed stays as it is. For any POSIX shell that has `local`, as busybox ash.
# shellcheck shell=ash disable=SC3043

# firewall_section NAME TYPE OPTION=VALUE...: makes a section of /etc/config/firewall, unless it was made before.
firewall_section() {
	local name=$1 option
	case " $(uci -q get loci.firewall.made) " in *" $name "*) return 0 ;; esac
	if ! uci -q get "firewall.$name" >/dev/null; then
		uci set "firewall.$name=$2"
		shift 2
		for option in "$@"; do uci set "firewall.$name.$option"; done
		firewall_changed=1
	fi
	uci set loci.firewall=firewall
	uci add_list "loci.firewall.made=$name"
}

# firewall_open CONFIGURATION
firewall_open() {
	firewall_changed=
	if [ ! -e "${FIREWALL_CONFIG:-/etc/config/firewall}" ] || [ ! -e "$1" ]; then return 0; fi
	if grep -qE '^(itr|etr|rtr|pitr|petr|map-server|map-resolver):' "$1"; then
		firewall_section loci_control rule name=Allow-LISP-control src=wan proto=udp dest_port=4342 target=ACCEPT
	fi
	if grep -qE '^(itr|etr|rtr|pitr|petr):' "$1"; then
		firewall_section loci_data rule name=Allow-LISP-data src=wan proto=udp dest_port=4341 target=ACCEPT
		# Packets of EIDs pass between the site and loci0. This router's own services stay closed to other sites.
		firewall_section loci zone name=loci device=loci0 input=REJECT output=ACCEPT forward=REJECT
		firewall_section loci_to_lan forwarding src=loci dest=lan
		firewall_section lan_to_loci forwarding src=lan dest=loci
	fi
	uci commit loci
	if [ -n "$firewall_changed" ]; then
		uci commit firewall
		/etc/init.d/firewall reload >/dev/null 2>&1 || true
	fi
}

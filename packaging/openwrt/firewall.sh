# SPDX-License-Identifier: Apache-2.0
#
# Opens OpenWrt's firewall for Loci: firewall_open CONFIGURATION [CORE [SITE]], by a file in the form of loci.yaml, and the networks or
# devices of core and site. Each section is made once, for the roles that the file has: what the operator removed or changed stays as it
# is. Changes go through a directory of their own, so that what the operator has set and not committed stays so. For any POSIX shell that
# has `local`, as busybox ash.
# shellcheck shell=ash disable=SC3043

# firewall_uci ARGUMENTS: uci, with changes of its own only.
firewall_uci() { uci -t "$firewall_changes" "$@"; }

# firewall_get KEY: a value, empty for none; a list with spaces between.
firewall_get() { firewall_uci -q get "$1" || true; }

# firewall_section NAME TYPE OPTION=VALUE...: makes a section of /etc/config/firewall, unless it was made before.
firewall_section() {
	local name=$1 option
	case " $(firewall_get loci.firewall.made) " in *" $name "*) return 0 ;; esac
	if [ -z "$(firewall_get "firewall.$name")" ]; then
		firewall_uci set "firewall.$name=$2"
		shift 2
		for option in "$@"; do firewall_uci set "firewall.$name.$option"; done
		firewall_changed=1
	fi
	firewall_uci set loci.firewall=firewall
	firewall_uci add_list "loci.firewall.made=$name"
}

# firewall_zone DEFAULT NAME...: the first zone with one of these networks or devices; DEFAULT where none has.
firewall_zone() {
	local default=$1 zone=0 has network name
	shift
	while [ -n "$(firewall_get "firewall.@zone[$zone]")" ]; do
		has=" $(firewall_get "firewall.@zone[$zone].network") $(firewall_get "firewall.@zone[$zone].device") "
		for network in $has; do has="$has$(firewall_get "network.$network.device") "; done
		for name in "$@"; do
			case $has in *" $name "*)
				firewall_get "firewall.@zone[$zone].name"
				return 0
				;;
			esac
		done
		zone=$((zone + 1))
	done
	printf '%s\n' "$default"
}

# firewall_open CONFIGURATION [CORE [SITE]]
firewall_open() {
	local core site
	firewall_changed=
	if [ ! -e "${FIREWALL_CONFIG:-/etc/config/firewall}" ] || [ ! -e "$1" ]; then return 0; fi
	firewall_changes=$(mktemp -d) || return 1
	# shellcheck disable=SC2086 # lists of names
	core=$(firewall_zone wan ${2:-wan}) site=$(firewall_zone lan ${3:-lan})
	if grep -qE '^(itr|etr|rtr|pitr|petr|map-server|map-resolver):' "$1"; then
		firewall_section loci_control rule name=Allow-LISP-control "src=$core" proto=udp dest_port=4342 target=ACCEPT
	fi
	if grep -qE '^(itr|etr|rtr|pitr|petr):' "$1"; then
		firewall_section loci_data rule name=Allow-LISP-data "src=$core" proto=udp dest_port=4341 target=ACCEPT
		# Packets of EIDs pass between the site and loci0. This router's own services stay closed to other sites.
		firewall_section loci zone name=loci device=loci0 input=REJECT output=ACCEPT forward=REJECT
		firewall_section loci_to_lan forwarding src=loci "dest=$site"
		firewall_section lan_to_loci forwarding "src=$site" dest=loci
	fi
	firewall_uci commit loci
	if [ -n "$firewall_changed" ]; then
		firewall_uci commit firewall
		/etc/init.d/firewall reload >/dev/null 2>&1 || true
	fi
	rm -rf "$firewall_changes"
}

# SPDX-License-Identifier: Apache-2.0
#
# What OpenWrt's /lib/functions.sh, /lib/functions/network.sh and procd.sh do, as far as Loci's scripts use them, for tests: a UCI file is
# itself read as shell commands; procd's functions print what they are told; `lan` is the device br-lan.
# shellcheck shell=ash disable=SC3043

uci_sections=
uci_section=
uci_lists=

config() {
	uci_section=${2:-cfg$((${uci_count:-0} + 1))}
	uci_count=$((${uci_count:-0} + 1))
	uci_sections="$uci_sections $uci_section"
	eval "uci_${uci_section}_TYPE=\$1"
}

option() { eval "uci_${uci_section}_$1=\$2"; }

list() {
	local length
	uci_lists="$uci_lists uci_${uci_section}_$1 uci_${uci_section}_$1_LENGTH"
	eval "length=\$((\${uci_${uci_section}_$1_LENGTH:-0} + 1)); uci_${uci_section}_$1_LENGTH=\$length"
	eval "uci_${uci_section}_$1_$length=\$2; uci_${uci_section}_$1=\"\${uci_${uci_section}_$1:+\$uci_${uci_section}_$1 }\$2\""
}

# UCI_FILE stands for /etc/config/loci.
config_load() {
	local variable
	for variable in $uci_lists; do eval "$variable="; done
	uci_lists=
	uci_sections=
	uci_count=0
	. "$UCI_FILE"
}

config_get() { eval "$1=\${uci_$2_$3:-\${4-}}"; }

config_get_bool() {
	config_get "$@"
	eval "case \$$1 in 1 | on | true | yes | enabled) $1=1 ;; 0 | off | false | no | disabled) $1=0 ;; *) $1=\${4-} ;; esac"
}

config_foreach() {
	local section type
	for section in $uci_sections; do
		config_get type "$section" TYPE
		if [ "$type" = "$2" ]; then "$1" "$section"; fi
	done
}

config_list_foreach() {
	local length at=1 value
	config_get length "$1" "$2_LENGTH" 0
	while [ $at -le "$length" ]; do
		config_get value "$1" "$2_$at"
		"$3" "$value"
		at=$((at + 1))
	done
}

network_get_device() {
	if [ "$2" != lan ]; then return 1; fi
	eval "$1=br-lan"
}

# uci keeps what is committed in uci.log of the directory UCI_STATE, a line each, and what is only set in a file `changes` of the
# directory of -t, or of UCI_STATE/staged.
uci() {
	local save=$UCI_STATE/staged
	while :; do
		case $1 in
		-q) shift ;;
		-t) save=$2 && shift 2 ;;
		*) break ;;
		esac
	done
	case $1 in
	get) cat "$UCI_STATE/uci.log" "$save/changes" 2>/dev/null | awk -v key="$2=" 'index($0, key) == 1 { printf "%s ", substr($0, length(key) + 1) }' | sed 's/ $//' | grep . ;;
	set | add_list) command mkdir -p "$save" && printf '%s\n' "$2" >>"$save/changes" ;;
	commit)
		if [ ! -e "$save/changes" ]; then return 0; fi
		grep "^$2\." "$save/changes" >>"$UCI_STATE/uci.log" || true
		sed -i "/^$2\./d" "$save/changes"
		;;
	esac
}

for procd in procd_open_instance procd_set_param procd_close_instance procd_add_reload_trigger stop restart; do
	eval "$procd() { echo $procd \"\$@\"; }"
done

# logger -s -t TAG -p PRIORITY
logger() { sed "s/^/$3: /" >&2; }

// SPDX-License-Identifier: Apache-2.0

// Package temptcp is `loci lab run te-mptcp`: the experiment of "Internet Acceleration with LISP Traffic Engineering
// and Multipath TCP" (Phung, Coudron, Secci; ICIN 2018), section V. Its parameters are a file, from which the network
// is made (package experiment). Transfers of each source are measured in all modes in turn; each relation that the
// paper finds is then judged: reproduced, not, or depending on something. None is a target: others than the paper's
// networks may have other results.
//
// What fails a run is a packet of a bound subflow that is seen at the RTR of another path.
//
// watch has a lock, which guards what its captures have seen.
package temptcp

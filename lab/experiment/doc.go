// SPDX-License-Identifier: Apache-2.0

// Package experiment is `loci lab`: it runs experiments that a file describes. A file has nodes, links, daemons and
// rows; a row sends packets and says where they must be seen, in which form, and where not. Each row has a control:
// the same packets with one thing changed, which must flip the verdict. An experiment that cannot fail proves
// nothing. A row may first move a node to another network; its control is what happens before that.
//
// A file is run once for each variant: one option of each of its dimensions, such as the family of the addresses and
// the hook of the data plane. The values of the options replace ${name} in the file.
//
// Nodes are network namespaces of this machine, daemons are processes of the command loci, and packets are decoded by
// a library that knows nothing of Loci. Nothing outside the namespaces is touched, and nothing is left behind.
//
// watch has a lock, which guards what its captures have seen.
package experiment

// SPDX-License-Identifier: Apache-2.0

// Package measured has the experiments that measure, which `loci lab run` runs: a file has the network (package
// experiment), which is built once for each engine, and Go code measures in it. The report has samples, medians and
// targets, as those of benches, and a drawing. It builds nothing that a file does not have but OpenOverlayRouter.
//
// flows has a lock, which guards the connections that are to be closed.
package measured

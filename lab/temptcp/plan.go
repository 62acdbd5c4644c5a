// SPDX-License-Identifier: Apache-2.0

package temptcp

// What is measured: the paper's modes, and each of them with each source and receive buffer.

import (
	"fmt"
	"slices"
)

// mode is SD, without RTRs, or subflows over so many paths.
type mode struct {
	kind  string // SD, SL or SF
	paths int
}

func (m mode) String() string {
	if m.kind == modeDefault {
		return m.kind
	}
	return fmt.Sprint(m.kind, m.paths)
}

const (
	modeDefault   = "SD"
	modeStateless = "SL"
	modeStateful  = "SF"
)

// subflows is how many a transfer has.
func (m mode) subflows() int {
	if m.kind == modeDefault {
		return 2
	}
	return m.paths
}

// plan is what a run measures.
type plan struct {
	size
	Sources []source
	Modes   []mode
	Buffers []int
}

// planOf is everything.
func planOf(p *parameters, s size) plan {
	modes := []mode{{modeDefault, 0}}
	for _, kind := range []string{modeStateless, modeStateful} {
		for paths := 1; paths <= mostPaths; paths++ {
			modes = append(modes, mode{kind, paths})
		}
	}
	return plan{size: s, Sources: p.Sources, Modes: modes, Buffers: p.ReceiveBuffers}
}

// bindings are those that are measured.
func (p *plan) bindings() []string {
	isStateful := func(m mode) bool { return m.kind == modeStateful }
	if slices.ContainsFunc(p.Modes, isStateful) {
		return []string{bindingStateless, bindingStateful}
	}
	return []string{bindingStateless}
}

// arm is what one transfer is an instance of.
type arm struct {
	source source
	mode   mode
	buffer int
}

func (a arm) String() string {
	return fmt.Sprintf("%s %s %s", a.source.Site, a.mode, bufferText(a.buffer))
}

// bufferText is a size in MiB.
func bufferText(octets int) string { return fmt.Sprintf("%d MiB", octets>>20) }

// arms are those of a binding. SD needs none.
func (p *plan) arms(binding string) (all []arm) {
	for _, m := range p.Modes {
		if (m.kind == modeStateful) != (binding == bindingStateful) {
			continue
		}
		for _, buffer := range p.Buffers {
			for _, s := range p.Sources {
				all = append(all, arm{s, m, buffer})
			}
		}
	}
	return all
}

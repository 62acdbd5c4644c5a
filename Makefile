# SPDX-License-Identifier: Apache-2.0
# Every task of a developer. `make` alone lists them. No variable is needed; these may be set:
#   FUZZTIME=30s  how long each fuzz target runs        PACKAGES=./...  what test, microbench and fuzz look at
#   SEEDS=1000    how many runs make sim makes           PACKAGES_FOR=    what make packages makes: deb/amd64, ipk/mips ...; all

FUZZTIME ?= 30s
SEEDS    ?= 1000
PACKAGES ?= ./...
GO       ?= go

# A Go before 1.21 cannot fetch the one that go.mod names; .ci/go does.
NEWER_GO := $(shell .ci/go)
ifneq ($(NEWER_GO),)
export PATH := $(NEWER_GO):$(PATH)
endif

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X loci/internal/version.String=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build cross packages demo recording quick sim mutate soak test long iterations kernels interop check lint bench peers microbench fuzz generate clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-10s %s\n", $$1, $$2 }'

build: ## build bin/loci, the router and its tools, and bin/loci-lab: static binaries; needs Go alone
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ ./cmd/loci ./cmd/loci-lab

cross: ## build bin/cross/loci-OS-ARCHITECTURE for every machine that Loci runs on; without the kernel's data plane on mips and mipsle
	packaging/cross

packages: ## build packages for Debian and OpenWrt in bin/packages, and check them; with root also in use
	packaging/build $(PACKAGES_FOR)
	packaging/check

demo: build ## two LISP sites and a mapping system in namespaces, with real packets; needs root
	@bin/loci demo

recording: build ## record the demo for README.md in docs/demo.svg; needs root and an idle machine
	script -qefc 'bin/loci demo' bin/demo.recording >/dev/null
	sed '1d; /^Script done/d' bin/demo.recording | $(GO) run ./docs/recording > docs/demo.svg

sim: build ## run SEEDS simulations of 50 routers and 10 virtual minutes, with faults; print what broke, and how to replay it
	@bin/loci sim --seeds $(SEEDS)

mutate: ## break the protocol code in many small ways; the simulator must find each within 200 seeds
	$(GO) run ./sim/mutate

soak: build ## drop control messages in all ways of loci lab run control-cut, at both engines; an hour and a half, needs root
	@bin/loci lab run control-cut --variant all
	@bin/loci lab run control-cut --variant all --engine user

# What is pure: it needs neither root nor anything installed, and no race detector, because nothing in it is concurrent.
QUICK := ./lisp/... ./wire/... ./control/... ./forward/... ./config/... ./sim

quick: ## test the protocol code, without root and without the largest tables; some 30 seconds
	CGO_ENABLED=0 $(GO) test -trimpath -vet=off -short $(QUICK)

test: ## run all tests, with the race detector where anything is concurrent; installs by apt what they need beyond Go
	@.ci/tools test
	@$(MAKE) --no-print-directory lint
	.ci/test $(PACKAGES)

# A site whose daemon is dead forwards on only in the kernel: the other test that chooses no engine runs with both.
long: ## run the tests of cmd/loci, lab/faults, lab/experiment and lab/measured at full length, with the timers of every day, in both engines, beside OpenOverlayRouter; some two hours, needs root
	@.ci/tools test
	@.ci/tools interop
	CI=true LOCI_LONG_TESTS=1 LOCI_FAULT_VERDICTS=1 CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -p 1 -parallel 4 -timeout 4h -tags interop ./cmd/loci ./lab/faults ./lab/experiment ./lab/measured
	CI=true LOCI_LONG_TESTS=1 LOCI_TEST_ENGINE=user CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -parallel 4 -timeout 2h -run '^TestTwoRoutersWithOneEID$$' ./cmd/loci

iterations: ## fail if an event-loop iteration of the control plane takes more than 5 ms of processor time at a million entries; not under the race detector
	$(GO) test -count=1 -v -run 'Iterations(At|Of)A' ./control

kernels: ## test programs, golden packets and demo on Debian's 6.1 kernel under qemu; installs what it needs by apt
	@.ci/tools kernels
	.ci/kernels

interop: ## test with OpenOverlayRouter as peer, installed by apt; needs root
	@.ci/tools interop
	CI=true CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -tags interop -run Interop ./cmd/loci

check: lint ## run the checks that need no root: gofmt, go vet, staticcheck, the rules of internal/tidy
	$(GO) test ./internal/tidy

# Compiled as by `make build` and by the tests that build the command: what is compiled once serves all of them.
lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	@.ci/format-c
	CGO_ENABLED=0 $(GO) vet -trimpath ./...
	CGO_ENABLED=0 GOFLAGS='$(GOFLAGS) -trimpath' $(GO) tool staticcheck ./...

bench: build peers ## run every `loci bench`, figures to docs/benchmarks.md; installs by apt what it compares with; needs root, takes some 20 minutes
	@.ci/tools bench
	@bin/loci bench all --write docs/benchmarks.md

peers: ## build bin/wireguard-go, which `loci bench user` compares with, in the version of go.mod
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/wireguard-go golang.zx2c4.com/wireguard

microbench: ## run the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

fuzz: ## run every fuzz target for FUZZTIME (30s)
	.ci/fuzz $(FUZZTIME) $(PACKAGES)

generate: ## rebuild the committed BPF objects and other generated files; installs clang-16 by apt
	@.ci/tools generate
	$(GO) generate ./...

clean: ## remove what was built
	rm -rf bin
	$(GO) clean

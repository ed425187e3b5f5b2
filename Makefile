# Two commands do all the set-up on a fresh machine: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Pinned tools; installed into .tools, never into go.mod.
BUILDER_VERSION := v0.165.0
GOLANGCI_VERSION := v2.15.0
# The S3 server of the tests; its name with the version is in testbed/internal/services too.
VERSITYGW_VERSION := v1.8.0

TOOLS := $(CURDIR)/.tools
# The service discoveries of the Prometheus receiver weigh 28 MB; only these two are of use here.
TAGS := remove_all_sd,enable_kubernetes_sd,enable_dns_sd
LDFLAGS := -s -w
# One set of flags for every call, so that all of them share one build cache.
export GOFLAGS += -trimpath
GO := CGO_ENABLED=0 go
GO_CGO := CGO_ENABLED=1 go
# Packages with code of ours; cmd/siglakecol is generated and has no tests.
PACKAGES := . ./exporter/... ./extension/... ./internal/...
FUZZTIME ?= 10s
E2E_NEEDS := node npm strace curl mount mkfs.ext4 mkfs.xfs initdb psql

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: run
run: build ## build, then start the collector on the embedded default (Ctrl-C seals and ends it)
	@scripts/run

.PHONY: build
build: bin/siglakecol bin/siglake ## build bin/siglakecol and bin/siglake

# Go knows better than make what has changed.
.PHONY: bin/siglakecol
bin/siglakecol:
	@scripts/need go
	$(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $@ ./cmd/siglakecol

.PHONY: bin/siglake
bin/siglake: ## the operator's command line; `sql` embeds DuckDB and needs a C++ compiler
	@scripts/need go gcc g++
	$(GO_CGO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/siglake

.PHONY: bin/siglake-static
bin/siglake-static: ## the same without cgo and without `sql`
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/siglake

.PHONY: test
test: unit e2e ## all tests of the everyday tier (under ten minutes with a warm cache)

.PHONY: unit
unit: $(TOOLS)/builder-$(BUILDER_VERSION) $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## unit tests, golden files, crash sweeps, fuzz seeds
	@scripts/need go gcc g++ initdb psql
	$(GO) test -tags $(TAGS) $(PACKAGES)
	$(GO_CGO) test ./cmd/siglake/...

.PHONY: e2e
e2e: build $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## the built binaries: kill -9, power cut (needs root), wrong configuration, hostile input, independent reader
	@scripts/need $(E2E_NEEDS)
	cd testbed/reader && npm ci --no-audit --no-fund --silent && npm test --silent
	cd testbed && $(GO) test -count=1 -p 1 ./...

.PHONY: acceptance
acceptance: build $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## PAYLOADS=DIR [CATALOG=postgres]: every OTLP file below DIR end to end, each field compared
	@test -n '$(PAYLOADS)' || { echo 'usage: make acceptance PAYLOADS=DIR [CATALOG=postgres]'; exit 2; }
	@scripts/need node npm
	cd testbed/reader && npm ci --no-audit --no-fund --silent
	cd testbed && $(GO) run ./acceptance -payloads '$(abspath $(PAYLOADS))' -catalog $(or $(CATALOG),sqlite)

.PHONY: rehearse
rehearse: build $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## lose the log's volume under load, recover it from the mirror, report what was lost; LOSSES=20 [INTERVALS='0s 5s']: measure that (40 minutes)
	@scripts/need node npm initdb psql
	cd testbed/reader && npm ci --no-audit --no-fund --silent
	cd testbed && SIGLAKE_SOAK=1 SIGLAKE_LOSSES='$(LOSSES)' SIGLAKE_INTERVALS='$(INTERVALS)' \
		$(GO) test -count=1 -v -timeout 4h -run '^$(if $(LOSSES),TestLosses,TestRehearse)$$' ./rehearse

.PHONY: race
# -short is this run's alone; CONTRIBUTING.md says what a test may leave out under it.
race: $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## the race detector over internal, exporter, extension and cmd/siglake
	@scripts/need gcc g++ initdb psql
	$(GO_CGO) test -race -short -timeout 30m -tags $(TAGS) ./internal/... ./exporter/... ./extension/... ./cmd/siglake

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: build ## throughput and latency of this machine against the otlp -> nop ceiling (medians of five)
	cd testbed && $(GO) run ./cmd/bench

.PHONY: bench-mirror
bench-mirror: build $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## what the mirror costs and bears, against a store that discards and an S3 server (six minutes)
	cd testbed && $(GO) run ./cmd/bench -mirror

.PHONY: bench-lake
bench-lake: build ## from a client to the table: a saturating load and the drain of it; [DURATION=10m] [RATE=20000] [MAINTENANCE=off]
	@scripts/need node npm
	cd testbed/reader && npm ci --no-audit --no-fund --silent
	cd testbed && $(GO) run ./cmd/bench -lake -duration $(or $(DURATION),10m) -rate $(or $(RATE),0) -maintenance $(or $(MAINTENANCE),auto)

.PHONY: bench-parts
bench-parts: ## rows per CPU second of the encoder, the layouts of the log, and the Parquet writer against iceberg-go's (ten minutes)
	$(GO) test -run '^$$' -bench '^BenchmarkEncode$$' -count 5 ./internal/otelarrow
	$(GO) test -run '^$$' -bench '^BenchmarkLayout$$' -benchtime 100x ./internal/otelarrow
	$(GO) test -run '^$$' -bench '^BenchmarkCommit$$' -benchtime 7x ./internal/lake

.PHONY: soak
soak: build $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## the full-size end-to-end runs (an hour)
	@scripts/need $(E2E_NEEDS)
	cd testbed/reader && npm ci --no-audit --no-fund --silent
	SIGLAKE_SOAK=1 $(GO) test -count=1 -run TestKill_exact ./internal/wal ./internal/drain
	cd testbed && SIGLAKE_SOAK=1 $(GO) test -count=1 -p 1 -timeout 2h ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## linters, import directions, formatting
	CGO_ENABLED=0 $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) run ./internal/... ./exporter/... ./extension/...
	CGO_ENABLED=1 $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) run ./cmd/siglake
	$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) fmt --diff
	cd testbed && $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) fmt --diff

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## format all Go files
	$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) fmt
	cd testbed && $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) fmt

.PHONY: generate
generate: genocb ## everything that is generated; leaves git clean when in sync

.PHONY: genocb
genocb: $(TOOLS)/builder-$(BUILDER_VERSION) ## cmd/siglakecol from builder-config.yaml
	mkdir -p cmd/siglakecol
	$(TOOLS)/builder-$(BUILDER_VERSION) --config builder-config.yaml --skip-get-modules --skip-compilation
	gofmt -w cmd/siglakecol

.PHONY: tools
tools: $(TOOLS)/builder-$(BUILDER_VERSION) $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) $(TOOLS)/versitygw-$(VERSITYGW_VERSION) ## install the pinned tools into .tools

$(TOOLS)/builder-$(BUILDER_VERSION):
	@scripts/need go
	GOBIN=$(TOOLS) go install go.opentelemetry.io/collector/cmd/builder@$(BUILDER_VERSION)
	mv $(TOOLS)/builder $@

$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	@scripts/need go
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

$(TOOLS)/versitygw-$(VERSITYGW_VERSION):
	@scripts/need go
	GOBIN=$(TOOLS) CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	mv $(TOOLS)/versitygw $@

# What a contributor runs, and what CI runs.

ARGS      ?=
BENCH     ?= .
FUZZTIME  ?= 60s
REPORT    ?=
SOAK      ?= 10m
TESTFLAGS ?=

GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT    ?= go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK   ?= go run golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Every directory with a go.mod, the root first.
MODULES := . $(filter-out .,$(patsubst %/go.mod,%,$(sort $(shell find . -name go.mod -not -path '*/.*/*' -not -path '*/testdata/*'))))

# $(call in-modules,COMMAND) runs COMMAND in every module, in all of them even if it fails in one.
define in-modules
@status=0; for module in $(MODULES); do echo "== $$module"; (cd $$module && $(1)) || status=1; done; exit $$status
endef

.PHONY: help test demo quickstart plots lint vuln fmt tidy fuzz soak bench gobench needs ci modules

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: needs ## run every suite against a real Redis, with the race detector (TESTFLAGS="-run Name -v")
	$(call in-modules,go test -race -shuffle=on -count=1 $(TESTFLAGS) ./...)

demo: ## show the five algorithms on a web page, http://localhost:8080 (ARGS="-port 8081")
	@cd examples && go run ./demo $(ARGS)

quickstart: ## show them in the terminal (ARGS="-redis-addr host:port")
	@cd examples && go run ./quickstart $(ARGS)

plots: ## draw the pictures in docs/img again
	@cd examples && go run ./plots -out ../docs/img

lint: ## vet and lint every module, and the workflows
	$(call in-modules,go vet ./... && $(GOLANGCI_LINT) run)
	@$(ACTIONLINT)

vuln: ## look for known vulnerabilities that the code of a module reaches; asks vuln.go.dev
	$(call in-modules,$(GOVULNCHECK) ./...)

fmt: ## format every module
	$(call in-modules,$(GOLANGCI_LINT) fmt)

tidy: ## tidy every go.mod
	$(call in-modules,go mod tidy)

fuzz: ## run each fuzz target for FUZZTIME (60s)
	@bash .ci/redis
	@bash .ci/fuzz $(FUZZTIME)

soak: ## load a server for SOAK (10m), then with faults, and print a report (REPORT=file keeps it)
	@bash .ci/redis
	@RATELIMIT_SOAK=$(SOAK) RATELIMIT_SOAK_REPORT='$(abspath $(REPORT))' go test -run '^TestSoak$$' -count=1 -v -timeout 50m .

bench: ## compare with other libraries, write docs/benchmarks.md (ARGS="-quick -out /tmp")
	@RATELIMIT_REQUIRE=process bash .ci/redis
	@cd bench && go run . $(ARGS)

gobench: ## run the benchmarks of the root module (BENCH=regexp)
	@bash .ci/redis
	@go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) ./...

# What the tests need. It comes before them, as Go looks for a C compiler when it is asked to test.
needs:
	@bash .ci/compiler
	@bash .ci/redis
	@RATELIMIT_REQUIRE=process bash .ci/redis # for bench
	@bash .ci/browser

ci: ## run all that CI runs; installs packages, so it wants root on Debian
	@CI=true bash .ci/run

modules:
	@echo $(MODULES)

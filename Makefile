# Needs make, bash, Go and gcc. Whatever else a target uses is built into bin/, each program in an exact version.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

GO            ?= go
BIN           := $(CURDIR)/bin
GOLANGCI_LINT := $(BIN)/golangci-lint

# go-nvml calls the driver's library through cgo and binds its symbols when they
# are first used: neither -static nor -Wl,-z,now can work. The flag silences 50
# warnings from NVIDIA's header.
export CGO_ENABLED := 1
export CGO_CFLAGS  := -O2 -g -Wno-deprecated-declarations
# go.mod and go.sum are changed by hand, never by a build. An image of a tree
# without git must build too, hence no VCS stamping: LDFLAGS carries it.
export GOFLAGS     := -mod=readonly -buildvcs=false

VERSION    := $(shell cat VERSION)
REVISION   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BRANCH     := $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null || echo unknown)
# The date of the commit, so that one revision gives one binary.
BUILD_DATE := $(shell git log -1 --format=%cd --date=format:%Y%m%d-%H:%M:%S 2>/dev/null || echo unknown)
PKG_VERSION := github.com/prometheus/common/version
LDFLAGS := -X $(PKG_VERSION).Version=$(VERSION) \
	-X $(PKG_VERSION).Revision=$(REVISION) \
	-X $(PKG_VERSION).Branch=$(BRANCH) \
	-X $(PKG_VERSION).BuildDate=$(BUILD_DATE)

# All modules of this repository.
MODULES := . e2e e2e/bench e2e/tools

# Real logs, for tests and measurements; what reads them does without.
TRACES := $(CURDIR)/../shared/traces

# Prints what a reader needs of `go test`, and fails on a skipped test.
GOTEST := TRACES=$(TRACES) $(CURDIR)/.ci/gotest

# Programs of others, by package and version. A checksum database, or the go.sum of the program, holds what they are built from.
INSTALLED := $(BIN)/.installed
BUILT     := $(BIN)/.built
LINTER        := $(INSTALLED)/github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM     := $(INSTALLED)/gotest.tools/gotestsum@v1.13.0
JSONNET       := $(patsubst %,$(INSTALLED)/github.com/google/go-jsonnet/cmd/%@v0.22.0,jsonnet jsonnet-lint jsonnetfmt)
# Later versions of the module have no web assets.
ALERTMANAGER  := $(patsubst %,$(INSTALLED)/github.com/prometheus/alertmanager/cmd/%@v0.31.1,alertmanager amtool)
HELM          := $(INSTALLED)/helm.sh/helm/v4/cmd/helm@v4.3.1
ACTIONLINT    := $(INSTALLED)/github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
RELEASE_TOOLS := $(INSTALLED)/github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2 $(INSTALLED)/github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
PROMU         := $(BUILT)/github.com/prometheus/promu@v0.20.0
PINT          := $(BUILT)/github.com/cloudflare/pint@v0.87.0
# The version whose parser the tests use.
PROMETHEUS    := $(BUILT)/github.com/prometheus/prometheus@$(shell sed -n 's,^\tgithub.com/prometheus/prometheus \(v[0-9.]*\)$$,\1,p' e2e/go.mod)
$(PROMU): PACKAGES := .
$(PINT): PACKAGES := ./cmd/pint
$(PROMETHEUS): PACKAGES := ./cmd/prometheus ./cmd/promtool
# The oldest that has keep_firing_for. It is built into a folder of its own.
OLDEST        := $(BIN)/oldest
OLDEST_BUILT  := $(OLDEST)/.built/github.com/prometheus/prometheus@v0.42.0

# What make hardware hands to e2e/hardware/run.py, and what make hardware-bundle writes.
HARDWARE_FLAGS  ?=
HARDWARE_BUNDLE ?= gpu_leak_exporter-hardware.tar.gz

DEMO_ADDRESS ?= localhost:9844
DEMO_SOURCE  ?= sim:node
DEMO_SPEED   ?= 60
DEMO_STACK_FLAGS ?=
FUZZTIME     ?= 10s
BENCH        ?= .

.PHONY: all
all: build test lint

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build gpu_leak_exporter and gpuleaktool in the root of the repository
	$(GO) build -ldflags '$(LDFLAGS)' -o . ./cmd/gpu_leak_exporter ./cmd/gpuleaktool

.PHONY: demo
demo: ## run the exporter on simulated GPUs; Ctrl-C ends it
	@echo 'Building the exporter: two minutes the first time.'
	$(GO) build -ldflags '$(LDFLAGS)' -o . ./cmd/gpu_leak_exporter
	@# The pages are named once they are there. Ctrl-C reaches all: what reads the log waits for the end of it.
	@./gpu_leak_exporter --source=$(DEMO_SOURCE) --source.speed=$(DEMO_SPEED) --web.listen-address=$(DEMO_ADDRESS) 2>&1 | { trap '' INT; while IFS= read -r line; do \
		printf '%s\n' "$$line" >&2; \
		[[ "$$line" != *'address already in use'* ]] || printf 'Here that is make demo DEMO_ADDRESS=HOST:PORT\n' >&2; \
		[[ "$$line" != *'msg="Listening on"'* ]] || printf '\n  Open  http://%s/          the start page\n        http://%s/predict   which GPU runs out of memory, and when\n        http://%s/metrics   what Prometheus scrapes\n\n  Simulated GPUs, %s times as fast as real ones. Ctrl-C ends it.\n\n' \
			$(DEMO_ADDRESS) $(DEMO_ADDRESS) $(DEMO_ADDRESS) $(DEMO_SPEED); \
	done; }

# What has a port of the stack is named before minutes of building.
.PHONY: demo-ports
demo-ports:
	mkdir -p $(BIN)
	cd e2e && $(GO) build -o $(BIN)/demostack ./cmd/demostack
	@$(BIN)/demostack -check $(DEMO_STACK_FLAGS)
	@echo 'Building the exporter, Prometheus and Alertmanager: 5 to 11 minutes the first time. With Docker examples/compose.yaml builds less, and has Grafana.'

.PHONY: demo-stack
demo-stack: demo-ports build $(JSONNET) $(PROMETHEUS) $(ALERTMANAGER) ## run the exporter, Prometheus and Alertmanager on a simulated crash loop, and print the pages; Ctrl-C ends it
	@exec $(BIN)/demostack -root=. $(DEMO_STACK_FLAGS)

# What the tests of one package may take; they take a minute. What hangs is ended
# then, and go test says what it was.
TEST_TIMEOUT := 10m
# A leak that a real Prometheus has to see takes minutes: nine for all on two busy cores.
E2E_TIMEOUT  := 30m

# Tests that mostly wait, for a program or for time to pass, run beside each other.
MANY := -p 4 -parallel 8

.PHONY: test
test: $(GOTESTSUM) ## all tests that need Go and gcc only, with the race detector where there are goroutines
	# The test cache does not see files outside of the module, such as traces.
	$(GOTEST) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(MANY) -race $$($(GO) list ./... | grep -v -e '/detector$$' -e '/detector/internal/series$$')
	# These start no goroutine and share nothing with one, and take eight times as long with
	# the race detector. What calls them from goroutines is above, and their code with it.
	! grep -nE '^\s*go |\.Parallel\(\)|"sync[/"]' detector/*.go detector/internal/series/*.go
	$(GOTEST) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./detector ./detector/internal/series
	cd e2e && $(GOTEST) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(MANY) ./...
	cd e2e/bench && $(GOTEST) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./...

# make test has run the others.
e2e_tests = ^($(shell grep -rlE '^//go:build e2e$$' --include='*_test.go' $(1) | xargs grep -hoE '^func Test[A-Za-z0-9_]+' | cut -d' ' -f2 | paste -sd'|'))$$

.PHONY: e2e
e2e: tools $(HELM) $(GOTESTSUM) ## the tests that need Prometheus and other programs
	$(GOTEST) $(GO) test -tags e2e -count=1 -timeout $(TEST_TIMEOUT) -run '$(call e2e_tests,collector/allocator)' ./collector/allocator
	# What a release is made of takes as long as all else: make check-release. So do make bench-fleet and make check-cluster.
	cd e2e && E2E_BIN=$(BIN) E2E_RACE=1 $(GOTEST) $(GO) test -tags e2e -count=1 -timeout $(E2E_TIMEOUT) $(MANY) -run '$(call e2e_tests,e2e)' -skip '^TestRelease' ./...

# What a change may break without a test of make test or make e2e noticing: faults at random, a browser, containerd, a fleet,
# what queries cost, whole incidents.
.PHONY: ci-nightly
ci-nightly: tools check-oldest $(HELM) e2e-packages $(GOTESTSUM) ## all tests, those too that take long: before a release, and each night; half an hour
	$(GOTEST) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run '^TestSchedules$$' ./collector/nvml -schedules=6 -schedules.time=1h
	cd e2e && E2E_BIN=$(BIN) E2E_RACE=1 $(GOTEST) $(GO) test -tags e2e,nightly -count=1 -timeout $(E2E_TIMEOUT) -skip '^Test(Release|Image|FleetCost|Cluster)' ./...

.PHONY: check-oldest
check-oldest: tools
	$(MAKE) BIN=$(OLDEST) PROMETHEUS=$(OLDEST_BUILT) $(OLDEST_BUILT)
	$(OLDEST)/promtool check rules dashboards/alerts.yaml dashboards/rules.yaml
	$(OLDEST)/promtool test rules mixin/tests/*.yaml

.PHONY: size
size: build ## what a reader has to read, and what it may be at most (.ci/size.txt)
	cd e2e && $(GO) build -o $(BIN)/size ./internal/size
	@$(BIN)/size -exporter=./gpu_leak_exporter .ci/size.txt

.PHONY: screenshots
screenshots: e2e-packages ## make the pictures of /predict in docs/ from the running demo; needs Debian's chromium
	cd e2e && $(GO) test -tags e2e,nightly,screenshots -count=1 -timeout $(TEST_TIMEOUT) -run '^TestScreenshots$$' .

.PHONY: faults
faults: ## all faults that the exporter has to withstand, and their table bin/FAULTS.md; an hour and a half
	mkdir -p $(BIN)
	cd e2e && E2E_BIN=$(BIN) $(GO) test -tags e2e,nightly -count=1 -timeout 3h -run '^TestFaults' . -faults.all -faults.file=$(BIN)/FAULTS.md

.PHONY: bench-fleet
bench-fleet: ## what 10,000 GPUs of a Prometheus cost; ten minutes
	cd e2e && E2E_BIN=$(BIN) $(GO) test -tags e2e,nightly -v -count=1 -timeout 1h -run '^TestFleetCost$$' .

.PHONY: soak
soak: ## the exporter over two simulated weeks; ten minutes
	cd e2e && E2E_BIN=$(BIN) $(GO) test -tags e2e,nightly -v -count=1 -timeout 1h -run '^TestSoak$$' . -soak.time=10m

# Debian packages that make release uses.
RELEASE_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross zip
# Debian packages that the end-to-end tests use.
E2E_PACKAGES := chromium containerd curl fonts-dejavu-core jq runc python3 shellcheck systemd webhook
.PHONY: e2e-packages
e2e-packages:
	@for p in $(E2E_PACKAGES); do \
		dpkg -s "$$p" >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq --yes --no-install-recommends $(E2E_PACKAGES); break; }; \
	done

.PHONY: hardware
hardware: build ## try the exporter on the GPU of this machine, in ten minutes; needs a Python with PyTorch
	python3 e2e/hardware/run.py --bin=. --archive $(HARDWARE_FLAGS)

.PHONY: hardware-bundle
hardware-bundle: build ## pack the binaries and the hardware suite, for a machine that has a GPU and no Go
	tar czf $(HARDWARE_BUNDLE) --transform='s,^\(e2e/hardware/\|probe/\)\?,gpu_leak_exporter-hardware/,' \
		gpu_leak_exporter gpuleaktool LICENSE e2e/hardware/README.md e2e/hardware/run.py e2e/hardware/suite/*.py e2e/hardware/programs/*.py probe/gpu_leak_probe.py

.PHONY: lint
lint: lint-tool tools $(ACTIONLINT) check-format checkrules portable ## golangci-lint, formats, rules, jsonnet, workflows and other systems
	$(BIN)/actionlint -shellcheck= -pyflakes=
	# An action is at a commit, with its version for the reader: who owns it can move a tag, but no commit.
	! grep -hE '\buses:' .github/workflows/*.yml | grep -vE 'uses: [[:alnum:]_-]+/[[:alnum:]_/-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$$'
	for m in $(MODULES); do (cd $$m && $(GOLANGCI_LINT) run --config=$(CURDIR)/.golangci.yml ./...); done
	for m in $(MODULES); do (cd $$m && GOFLAGS= $(GO) mod tidy -diff); done

.PHONY: portable
portable:
	# What knows no driver must build where there is no C compiler.
	CGO_ENABLED=0 $(GO) vet $$($(GO) list ./detector/... ./collector/... | grep -v /nvml) ./cmd/gpuleaktool/...
	# So must what runs on laptops.
	for os in darwin windows; do CGO_ENABLED=0 GOOS=$$os $(GO) build -trimpath -o /dev/null ./cmd/gpuleaktool; done

.PHONY: check-format
check-format: lint-tool tools
	for m in $(MODULES); do (cd $$m && $(GOLANGCI_LINT) fmt --config=$(CURDIR)/.golangci.yml --diff); done
	find mixin -name '*.*sonnet' -print0 | xargs -0 -r -n1 $(BIN)/jsonnetfmt --test --

.PHONY: format
format: lint-tool tools ## rewrite Go and jsonnet files in their standard form
	for m in $(MODULES); do (cd $$m && $(GOLANGCI_LINT) fmt --config=$(CURDIR)/.golangci.yml); done
	find mixin -name '*.*sonnet' -print0 | xargs -0 -r $(BIN)/jsonnetfmt -i --

.PHONY: mixin
mixin: tools ## render the alerts and rules of the mixin into dashboards/
	mkdir -p dashboards
	$(BIN)/jsonnet -J mixin -S -e 'std.manifestYamlDoc((import "mixin.libsonnet").prometheusAlerts, quote_keys=false)' > dashboards/alerts.yaml
	$(BIN)/jsonnet -J mixin -S -e 'std.manifestYamlDoc((import "mixin.libsonnet").prometheusRules, quote_keys=false)' > dashboards/rules.yaml

.PHONY: dashboards
dashboards: tools ## render the dashboards of the mixin into dashboards/
	mkdir -p dashboards
	$(BIN)/jsonnet -J mixin -m dashboards -e '(import "mixin.libsonnet").grafanaDashboards' >/dev/null

.PHONY: checkrules
checkrules: mixin dashboards ## check and test the rules, dashboards and examples
	find mixin -name '*.*sonnet' -print0 | xargs -0 -r -n1 $(BIN)/jsonnet-lint -J mixin --
	$(BIN)/promtool check rules --lint=all --lint-fatal dashboards/alerts.yaml dashboards/rules.yaml
	$(BIN)/promtool test rules mixin/tests/*.yaml
	for f in examples/prometheus*.yml; do $(BIN)/promtool check config --syntax-only $$f || exit 1; done
	$(BIN)/amtool check-config examples/alertmanager.yml
	$(BIN)/amtool check-config examples/act/alertmanager.yml
	$(BIN)/dashboardlint -exceptions=e2e/tools/dashboardlint/exceptions.yml dashboards/*.json
	$(BIN)/pint --offline --no-color --config mixin/pint.hcl lint --fail-on=warning dashboards/alerts.yaml dashboards/rules.yaml

.PHONY: bench
bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: bench-cost
bench-cost: ## measure what the exporter itself costs, or that of RIVAL=FILE, and write bin/COST.md (15 minutes)
	mkdir -p $(BIN)
	cd e2e && $(GO) test -tags e2e,nightly -count=1 -timeout 1h -run '^TestCost$$' . -cost.file=$(BIN)/COST.md -cost.rival=$(RIVAL)

.PHONY: bench-rules
bench-rules: mixin ## measure what the rules cost a Prometheus of 200 and 1,000 nodes, and write bin/RULES.md (5 minutes, 8 GiB)
	cd e2e && E2E_BIN=$(BIN) $(GO) test -count=1 -timeout 1h -run '^TestRulesCost$$' ./mixin -rules.nodes=200,1000 -rules.file=$(BIN)/RULES.md

# Seeds 1 to 100 are for tuning; what is published comes from others.
SEEDS ?= 301-310

.PHONY: bench-detect
bench-detect: ## measure the detector, a line for each population, and write bin/DETECT.md
	mkdir -p $(BIN)
	cd e2e/bench && $(GO) run . --summary=fleet,probes,reports,lives,limits --seeds=$(SEEDS) > $(BIN)/DETECT.md

# Each writes bin/NAME.md: a line for each family and the rules of other systems, the public reports
# one by one, chains of lives, what each constant costs at half and at double (an hour).
DETAILS := bench-families bench-incidents bench-lives bench-constants
.PHONY: $(DETAILS)
$(DETAILS): bench-%:
	mkdir -p $(BIN)
	cd e2e/bench && $(GO) run . --$* --seeds=$(SEEDS) > $(BIN)/$*.md

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME
	grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | cut -d' ' -f2); do \
			(cd "$$dir" && echo "$$dir $$f" && $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) .); \
		done; \
	done

.PHONY: release
release: $(PROMU) $(RELEASE_TOOLS) $(HELM) release-packages ## what a release has, in .tarballs: tarballs, deb, rpm, SBOM, checksums
	deploy/release.sh $(BIN) .tarballs

.PHONY: check-release
check-release: tools $(RELEASE_TOOLS) $(HELM) release-packages e2e-packages ## make a release twice, install it, run its binaries and its image; twenty minutes
	dpkg -s buildah qemu-user >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq --yes --no-install-recommends buildah qemu-user; }
	cd e2e && E2E_BIN=$(BIN) $(GO) test -tags e2e,nightly -count=1 -timeout 1h -run '^Test(Release|Image)' . -release.twice

.PHONY: check-cluster
check-cluster: $(HELM) $(BIN)/.kubernetes ## apply the chart and the manifests to a real Kubernetes API server; half a minute, and four minutes to build it
	cd e2e && E2E_BIN=$(BIN) $(GO) test -tags e2e,nightly -count=1 -timeout 1h -run '^TestCluster' .

.PHONY: image
image: release ## the container image of a release for amd64 and arm64, as .tarballs/image.tar; needs buildah
	deploy/image/build.sh .build .tarballs/image.tar

.PHONY: manifests
manifests: $(HELM) ## render the manifests of examples/kubernetes from the chart
	deploy/helm/manifests.sh $(BIN)/helm examples/kubernetes

.PHONY: release-packages
release-packages:
	@for p in $(RELEASE_PACKAGES); do \
		dpkg -s "$$p" >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq --yes --no-install-recommends $(RELEASE_PACKAGES); break; }; \
	done

.PHONY: tools
tools: $(JSONNET) $(PINT) $(PROMU) $(PROMETHEUS) $(ALERTMANAGER) $(BIN)/dashboardlint ## build Prometheus, Alertmanager, jsonnet, promu and pint into bin/

.PHONY: lint-tool
lint-tool: $(LINTER)

# The name of a stamp has the version, so another version is built again.
$(BIN)/.installed/%:
	mkdir -p $(@D)
	GOFLAGS= GOBIN=$(BIN) CGO_ENABLED=0 $(GO) install -trimpath -ldflags '-s -w' $*
	rm -f $(firstword $(subst @, ,$@))@*
	touch $@

# go install refuses Prometheus, which replaces a module, and asks for a list of versions of promu and pint, which not
# every proxy has. In the folder of a module its own go.mod and go.sum hold.
$(BIN)/.built/%:
	mkdir -p $(@D)
	dir=$$($(GO) mod download -json $* | sed -n 's,.*"Dir": "\(.*\)".*,\1,p') && cd "$$dir" && \
		GOWORK=off CGO_ENABLED=0 $(GO) build -trimpath -tags remove_all_sd -ldflags '-s -w' -o $(BIN)/ $(PACKAGES)
	rm -f $(firstword $(subst @, ,$@))@*
	touch $@

# kube-apiserver, kube-controller-manager, kubectl and etcd. helm asks the server for its version, which is in no module.
# The Prometheus operator's kinds are in files of its module.
KUBERNETES_VERSION  := $(shell sed -n 's,^\tk8s.io/kubernetes \(v[0-9.]*\) .*,\1,p' e2e/tools/go.mod)
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator@v0.89.0
$(BIN)/.kubernetes: e2e/tools/go.mod e2e/tools/go.sum
	mkdir -p $(BIN)/crds
	cd e2e/tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)' -o $(BIN)/ \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kubectl
	cd e2e/tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/etcd go.etcd.io/etcd/server/v3
	dir=$$($(GO) mod download -json $(PROMETHEUS_OPERATOR) | sed -n 's,.*"Dir": "\(.*\)".*,\1,p') && \
		install -m 644 "$$dir"/example/prometheus-operator-crd/monitoring.coreos.com_{podmonitors,prometheusrules}.yaml $(BIN)/crds
	touch $@

# Grafana's linter needs packages of Prometheus that newer versions lack.
$(BIN)/dashboardlint: $(wildcard e2e/tools/dashboardlint/*.go) e2e/tools/go.mod e2e/tools/go.sum
	mkdir -p $(BIN)
	cd e2e/tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./dashboardlint

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) .build .tarballs gpu_leak_exporter gpuleaktool

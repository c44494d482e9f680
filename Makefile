# What a developer types. Everything that is installed lands in build/ and target/; only a missing Debian package goes
# to the system, and only as root.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),target)
VENV := build/venv
PYTHON := tests/clients tests/peer tests/hostile clients/python experiments/plot experiments/testbed
LINTED := bench $(PYTHON)
GO_TOOLS := nsqd nsqlookupd nsqadmin nsq_tail nsq_to_file to_nsq
CARGO_DENY_VERSION := 0.20.2
# Seconds per fuzz target.
FUZZ_TIME ?= 60
# Seconds of simulated clusters.
SOAK_TIME ?= 60
# Messages that durable topics accept while their brokers are killed.
CRASH_MESSAGES ?= 1000000

# $(call timed,name,command): runs it and says how long it took. Join parts of a command by &&: only so all of them count.
timed = @echo "==> $(1)"; { $(2); } || { echo "<== $(1) failed" >&2; exit 1; }; echo "<== $(1): $$SECONDS s"

.PHONY: help run test bench bench-fit experiments testbed pictures fuzz soak mutants lint tidy fmt clippy doc deny advisories python-lint go-check cargo-test loom \
	clients clients-nsqd hostile binary debian-packages cargo-deny install-cargo-deny

help: ## Say what can be made.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

run: ## Start a controller, three brokers and the demo workload; Ctrl-C ends it.
	cargo build --locked -p srtm
	./$(TARGET)/debug/srtm up --brokers 3 --emulate-service-time 150us --profile-window 5s --log-level warn --demo

test: lint cargo-test loom clients ## All checks and tests, as CI runs them.

bench: ## Measure SRTM beside nsqd, NATS, Mosquitto and a bare relay.
	cargo build --release --locked -p srtm
	bench/peers/build.sh
	./$(TARGET)/release/srtm bench compare

bench-fit: ## Find the highest load under p99 <= 1 ms, of SRTM and of others.
	cargo build --release --locked -p srtm
	bench/peers/build.sh
	./$(TARGET)/release/srtm bench fit

experiments: ## Rerun the experiments of the SRTM and DRL papers in virtual time and draw them.
	cargo build --release --locked -p srtm
	./$(TARGET)/release/srtm experiment --all
	$(MAKE) pictures

testbed: ## Rerun the experiments of the DRL paper with real TCP; as root, in network namespaces, 25 minutes.
	cargo build --release --locked -p srtm
	python3 experiments/testbed/run.py --srtm $(TARGET)/release/srtm drl-fig5 drl-fig6 drl-fig7 drl-table1 drl-table2 drl-scale drl-fig9

pictures: build/plot/.ready ## Draw the results of experiments and measurements into docs/pictures.
	build/plot/bin/python experiments/plot/plot.py
	build/plot/bin/python experiments/plot/tempo.py
	build/plot/bin/python experiments/plot/drl.py

fuzz: ## Fuzz the wire format, segment files, access files, settings, auth servers' answers and compressed connections for FUZZ_TIME seconds per target; without cargo-fuzz a fixed-seed run.
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then \
	  for room in access wire disk broker settings; do \
	    (cd crates/$$room; \
	    for target in $$(cargo +nightly fuzz list); do cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_TIME); done); \
	  done; \
	else \
	  echo "no nightly cargo-fuzz: running the fixed-seed mutations on stable"; \
	  cargo test --locked -p access -p wire -p disk -p broker -p settings --test fuzz_smoke; \
	fi

# --- static checks -------------------------------------------------------------------------------------------------

soak: ## Run simulated clusters under faults for SOAK_TIME seconds, one seed after the other; then kill brokers until CRASH_MESSAGES were accepted.
	cargo run --locked -p soak -- $(SOAK_TIME) $(SOAK_FROM)
	SRTM_CRASH_MESSAGES=$(CRASH_MESSAGES) cargo test --locked -p srtm --test crash -- --nocapture durable_topics

mutants: ## Put faults into a copy of the product; a simulated cluster must find each.
	python3 crates/soak/mutants.py

lint: tidy fmt clippy doc deny python-lint go-check ## Everything that needs no running broker.

tidy: ## The rules of the house (xtask).
	$(call timed,$@,cargo xtask tidy)

fmt: ## Formatting of Rust.
	$(call timed,$@,cargo fmt --all -- --check -l)

clippy: ## Lints of Rust; warnings are errors.
	$(call timed,$@,cargo clippy --workspace --all-targets --locked -- -D warnings)

doc: ## Documentation of Rust; warnings are errors.
	$(call timed,$@,RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked)

deny: cargo-deny ## Licences, sources and versions of dependencies.
	$(call timed,$@,cargo deny --locked --log-level error check --hide-inclusion-graph bans licenses sources)

advisories: cargo-deny ## Known vulnerabilities; fetches the RustSec database from the net.
	cargo deny --locked check advisories

python-lint: $(VENV)/.ready ## Lints and formatting of Python.
	$(call timed,$@,$(VENV)/bin/ruff check -q $(LINTED) && $(VENV)/bin/ruff format -q --check $(LINTED))

go-check: ## Lints, formatting and tests of the Go programs.
	$(call timed,$@,unformatted=$$(gofmt -l tests/clients/go clients/go) && { test -z "$$unformatted" || { echo "gofmt: $$unformatted"; false; }; } && go -C tests/clients/go vet ./... && go -C tests/clients/go test ./... && go -C clients/go vet ./... && go -C clients/go test ./...)

# --- tests ---------------------------------------------------------------------------------------------------------

cargo-test: ## Unit, property and integration tests of Rust.
	$(call timed,$@,cargo test --workspace --locked)

loom: ## Every order of steps of the kernel's threads, in small programs.
	$(call timed,$@,cargo test --locked -p kernel --features loom --test loom)

clients: binary $(VENV)/.ready $(GO_TOOLS:%=build/bin/%) build/bin/go-nsq-conformance ## Stock NSQ clients and tools against SRTM, attacks in short, endpoints over a bridge, TCP through the limiter.
	$(call timed,$@,SRTM_NSQD="$${SRTM_NSQD:-$(TARGET)/debug/srtm nsqd}" SRTM_NSQLOOKUPD="$${SRTM_NSQLOOKUPD:-$(TARGET)/debug/srtm nsqlookupd}" SRTM="$${SRTM:-$(TARGET)/debug/srtm}" PYTHONPATH=tests/clients:clients/python:experiments/plot:experiments/testbed $(VENV)/bin/python -m pytest -q -n 4 --dist loadfile $(PYTHON))

hostile: binary $(VENV)/.ready ## Attack a broker with all that tests/hostile has; answers must be prompt and memory bounded meanwhile.
	$(call timed,$@,SRTM_NSQD="$${SRTM_NSQD:-$(TARGET)/debug/srtm nsqd}" SRTM_NSQLOOKUPD="$${SRTM_NSQLOOKUPD:-$(TARGET)/debug/srtm nsqlookupd}" SRTM="$${SRTM:-$(TARGET)/debug/srtm}" $(VENV)/bin/python -m pytest -q tests/hostile --full)

clients-nsqd: $(VENV)/.ready $(GO_TOOLS:%=build/bin/%) build/bin/go-nsq-conformance ## The same suite against nsqd 1.3.0.
	$(call timed,$@,SRTM_NSQD=build/bin/nsqd SRTM_NSQLOOKUPD=build/bin/nsqlookupd PYTHONPATH=clients/python $(VENV)/bin/python -m pytest tests/clients)

# As the tests of Rust build it, so that after them there is nothing to do.
binary:
	$(call timed,$@,cargo test --workspace --locked --no-run --test process)

# --- tools ---------------------------------------------------------------------------------------------------------

debian-packages:
	@if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then \
	  if [ "$$(id -u)" != 0 ]; then echo "install Debian's python3-venv first (this is not root)" >&2; exit 1; fi; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; \
	fi
	@if [ "$$(id -u)" = 0 ] && ! command -v ip >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2; \
	fi

$(VENV)/.ready: tests/clients/requirements.txt | debian-packages
	$(call timed,python packages,python3 -m venv $(VENV) && $(VENV)/bin/pip install -q --disable-pip-version-check -r $<)
	@touch $@

build/plot/.ready: experiments/plot/requirements.txt | debian-packages
	$(call timed,drawing packages,python3 -m venv build/plot && build/plot/bin/pip install -q --disable-pip-version-check -r $<)
	@touch $@

# Built from its source on crates.io, once per machine: it goes where cargo keeps programs. Not optimised, which would take longer
# than it saves.
cargo-deny:
	@cargo deny --version 2>/dev/null | grep -qx 'cargo-deny $(CARGO_DENY_VERSION)' || { $(MAKE) --no-print-directory install-cargo-deny; }

install-cargo-deny:
	$(call timed,$@,CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 cargo install --quiet --locked --debug --version $(CARGO_DENY_VERSION) cargo-deny)

$(GO_TOOLS:%=build/bin/%): build/bin/%: tests/clients/go/go.mod tests/clients/go/go.sum
	@mkdir -p build/bin
	$(call timed,$*,go -C tests/clients/go build -trimpath -o $(CURDIR)/$@ github.com/nsqio/nsq/apps/$*)

build/bin/go-nsq-conformance: $(wildcard tests/clients/go/conformance/*.go) tests/clients/go/go.mod tests/clients/go/go.sum
	@mkdir -p build/bin
	$(call timed,go-nsq-conformance,go -C tests/clients/go build -trimpath -o $(CURDIR)/$@ ./conformance)

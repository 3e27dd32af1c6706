# The short names of everything that is done with this tree; CMake and tools/ do the work.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
STRESS_MINUTES ?= 30
SEEDS ?= 1000000
FROM ?= 1
BENCH_ROUNDS ?= 3
BENCH_TASKS ?= 50000
FLEET_TASKS ?= 2000

.PHONY: build check test nightly demo install bench bench-scale bench-flow bench-http bench-encoding bench-audit stress chaos fleet simulate fuzz tidy format clean

# Benchmarks measure the build that is shipped.
configure_bench = (test -f build/release/build.ninja || cmake --preset release -DONCE_BUILD_TESTS=OFF) && \
	cmake build/release -DONCE_BUILD_BENCH=ON >/dev/null

# build/once, the command. The first configuration needs no test packages.
build:
	@command -v cmake >/dev/null || { echo "cmake is missing; tools/setup build installs what a build needs" >&2; exit 1; }
	@test -f build/release/build.ninja || cmake --preset release -DONCE_BUILD_TESTS=OFF
	@cmake --build build/release -j $(JOBS) --target once once_cli
	@install -m 755 build/release/once build/once

# Before each commit: formatting, layering, unit tests, the contract on memory and SQLite, 500 seeds.
check:
	@tools/setup build test
	@tools/run-tests --jobs $(JOBS) check

# What CI runs, on a fresh Debian 12 too: sets up, builds, tests, tests again with sanitizers.
test:
	@tools/setup build test fuzz tidy bench
	@tools/nats-server >/dev/null || true
	@tools/nats-server --old >/dev/null || true
	@tools/nats-js >/dev/null || true
	@tools/openapi-js >/dev/null || true
	@tools/promtool >/dev/null || true
	@tools/run-tests --jobs $(JOBS) release asan tsan targets

# Everything that takes long, whole: hours. Every mutant, and every other target of this file.
nightly:
	@tools/setup build test fuzz tidy bench
	@tools/nats-server >/dev/null || true
	@tools/nats-server --old >/dev/null || true
	@tools/nats-js >/dev/null || true
	@tools/openapi-js >/dev/null || true
	@tools/promtool >/dev/null || true
	@tools/once-0.1 $(JOBS) >/dev/null || true
	@tools/run-tests --jobs $(JOBS) --mutants all release asan tsan
	@ctest --test-dir build/release --output-on-failure -R '^system/version_01_test$$'
	@for target in tidy simulate fuzz chaos fleet stress bench bench-scale bench-flow bench-http bench-encoding bench-audit; do \
		$(MAKE) --no-print-directory $$target || exit 1; done

demo:
	@tools/setup build
	@$(MAKE) --no-print-directory build
	@build/once demo

install: build
	@cmake --install build/release --prefix $(PREFIX)

# Once beside what people would pick instead, about half an hour: build/bench/table.md, results.json and
# plots. BENCH_PEERS=once-sqlite,bullmq-always,... chooses, BENCH_WRITE=1 puts the results into docs and README,
# with BENCH_REMARK as a sentence of one's own.
bench:
	@tools/setup build bench
	@case "$(BENCH_PEERS)" in *once-sqlite) ;; *) tools/setup peers || true; \
		command -v npm >/dev/null || tools/setup npm || true ;; esac
	@tools/nats-server >/dev/null || true
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_peer
	@python3 -B bench/compare --rounds $(BENCH_ROUNDS) --tasks $(BENCH_TASKS) --peers "$(BENCH_PEERS)" \
		--remark "$(BENCH_REMARK)" $(if $(BENCH_WRITE),--write) build/release/once_peer

# How Once scales, with ids in the log, processes, tasks in flight and bodies: about ten minutes and 8 GB of disk,
# most of it for ten million ids (BENCH_SCALE="--ids 10000,1000000" has less; --help of bench/scale says more).
# Results as above, in build/bench-scale.
bench-scale:
	@tools/setup build bench
	@tools/nats-server >/dev/null || true
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_peer once_fill
	@python3 -B bench/scale --remark "$(BENCH_REMARK)" $(if $(BENCH_WRITE),--write) $(BENCH_SCALE) \
		build/release/once_peer build/release/once_fill

# Runs of a workflow, on Once and on its peers, and whether a run of Once costs the same after a hundred thousand runs:
# about half an hour. BENCH_FLOW="--runs 1000 --rounds 1 --peers once-sqlite,dbos" measures less. Results as above, in
# build/bench-flow.
bench-flow:
	@tools/setup build bench
	@case "$(BENCH_FLOW)" in *"--peers once-sqlite") ;; *) tools/setup peers || true; \
		command -v npm >/dev/null || tools/setup npm || true ;; esac
	@tools/nats-server >/dev/null || true
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_flow
	@python3 -B bench/flow --remark "$(BENCH_REMARK)" $(if $(BENCH_WRITE),--write) $(BENCH_FLOW) build/release/once_flow

# What `once serve` does over HTTP, in two minutes. BENCH_HTTP="--tasks 1000 --polls 100 --rounds 1" measures less.
bench-http:
	@tools/setup build bench
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_cli once_http
	@python3 -B bench/http $(BENCH_HTTP) build/release/once build/release/once_http

# The hot pieces by themselves; BENCH_FLAGS are Google Benchmark's.
bench-encoding:
	@tools/setup build bench
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_bench
	@build/release/once_bench $(BENCH_FLAGS)

# What an audit of millions of tasks takes, in time and memory; AUDIT_TASKS says how many.
bench-audit:
	@tools/setup build bench
	@$(configure_bench)
	@cmake --build build/release -j $(JOBS) --target once_fill
	@$(MAKE) --no-print-directory build
	@tools/bench-audit build/release/once_fill build/once $(AUDIT_TASKS)

# The long forms of the suites, again and again, for STRESS_MINUTES that the suites share.
stress:
	@tools/setup build test
	@tools/nats-server >/dev/null || true
	@cmake --preset release -DONCE_BUILD_TESTS=ON
	@cmake --build build/release -j $(JOBS)
	@tools/stress build/release $(STRESS_MINUTES) $(STRESS_SEED)

# Twenty thousand tasks on three nats-servers that are killed and paused, with workers that are killed.
chaos:
	@tools/setup build test
	@tools/nats-server >/dev/null
	@cmake --preset release -DONCE_BUILD_TESTS=ON
	@cmake --build build/release -j $(JOBS) --target once_cli crash_tests
	@ONCE_BIN=$(CURDIR)/build/release/once ONCE_CHILD=$(CURDIR)/build/release/tests/crash_tests \
		tests/system/nats_chaos.py $(CHAOS_FLAGS)

# Two thousand tasks, eight workers in Python and TypeScript, a network that loses messages, and kills with -9: once on
# SQLite and once on a nats-server.
fleet:
	@tools/setup build test
	@tools/nats-server >/dev/null || true
	@$(MAKE) --no-print-directory build
	@ONCE_BIN=$(CURDIR)/build/once ONCE_FLEET_TASKS=$(FLEET_TASKS) tests/clients/fleet_test.py
	@ONCE_BIN=$(CURDIR)/build/once ONCE_FLEET_TASKS=$(FLEET_TASKS) tests/support/on_nats.py tests/clients/fleet_test.py

# A million seeds of the simulator on all cores; FROM is the first one. SIMULATE_FLAGS=--flows has workflows in
# every one of them: then 20,000 are as much (SEEDS).
simulate:
	@tools/setup build test
	@cmake --preset release -DONCE_BUILD_TESTS=ON
	@cmake --build build/release -j $(JOBS) --target once_sim
	@tools/simulate build/release/once-sim $(SEEDS) $(FROM) $(SIMULATE_FLAGS)

fuzz:
	@tools/setup build fuzz
	@cmake --preset fuzz
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@tools/run-fuzzers build/fuzz $(FUZZ_SECONDS)

# All of src and cli, the files of TIDY_FILES, or the files that changed lately for TIDY_SECONDS.
tidy:
	@tools/setup build tidy
	@tools/tidy $(JOBS) $(if $(TIDY_SECONDS),--changed $(TIDY_SECONDS),$(TIDY_FILES))

format:
	@tools/check-format --fix

clean:
	@rm -rf build

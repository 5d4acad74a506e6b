# A thin front for CMake: every target here is one or two commands that can be typed by hand.
#
#   make                 builds build/release/bevatron, and the module for this machine's GPU if it has one and nvcc
#   make cuda            builds the module for GPUs of other machines too: CMAKE_FLAGS=-DBEVATRON_CUDA_ARCHS=80,90
#   make demo            trains a small GPT on this machine and generates text with it
#   make test            the tests of every folder and of the program, and make check: ten minutes from a fresh clone
#   make test-all        what make test leaves out: the unit tests in a build with sanitizers, ranks, Slurm, faults, terminals.
#                        A test that fails runs again alone, at most twice; build/flaky.txt names those that pass then
#   make test-board      drives the board's page in Chromium, which it installs, and measures its times on an idle machine
#   make board-pictures  takes the pictures of the board for docs/pictures with that Chromium
#   make test-slurm      starts a Slurm cluster on this machine and launches jobs on it, also between two virtual hosts
#                        (part of make test-all if Slurm is installed and you are root)
#   make test-faults     injects every fault of docs/reliability.md into runs of four ranks, and writes its table: half an hour
#                        (ROWS="1 8" measures these rows; FAULTS_DEVICE=cuda BEVATRON=… tests/faults/run.sh those of a GPU)
#   make test-syscalls   kills ranks at every system call of a save that changes a file, and lets every call of load, resume,
#                        convert and preprocess fail once: 60 minutes; STRIDE=7 for a sample
#   make soak            trains with SOAK_FAULTS seeded faults on each of several layouts: about 10 s per fault;
#                        SOAK_SEEDS="1 2 3" takes several seeds, SOAK_JOBS runs at a time
#   make test-threads    runs the unit tests that use threads under ThreadSanitizer
#   make test-layouts    trains on every layout of up to 8 ranks and compares with one rank: hours
#                        (MODELS=… RANKS=… SHARE=3/40 DTYPE=… RESULTS=… LIMIT=600 CSV=… select, see tests/layouts/run.sh)
#   make test-peers      compares with Python libraries (PYTHON=… with the packages of tests/peers; OTHER_PYTHON=… with
#                        another release of transformers, for the exports)
#   make bench           runs the benchmarks; BENCH="bench_x …" selects some
#   make check           formatting, style, names, include direction
#   make format          formats C and CUDA files with clang-format
#   make fuzz            runs every fuzz target for FUZZ_SECONDS each
#   make install         installs program, manual pages, completion, documents and examples into PREFIX (default
#                        /usr/local) below DESTDIR
#   make package         makes .deb packages and archives in build/package/packages, for systems like this one; PORTABLE=yes
#                        makes them in build/portable/packages, for glibc 2.31 and newer (downloads a sysroot once)
#   make wheel           the same packages, and wheels of them for pip: of the program, and of its module for GPUs;
#                        ARCHITECTURE=arm64 or amd64 makes those of another machine with its cross compiler
#   make dist            makes a release in build/dist: source, portable packages, wheels, bill of materials, checksums
#   make test-packages   installs packages and wheels in fresh Debian and Ubuntu roots and trains there (root and a network)
#   make clean           removes build/ and demo/
#
# demo, test, test-all, check and fuzz first install missing Debian packages if you are root; SETUP=no installs nothing.
# CMAKE_FLAGS is passed to CMake: make CMAKE_FLAGS=-DBEVATRON_CUDA=ON

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTHON ?= python3
FUZZ_SECONDS ?= 60
SETUP ?= yes
CMAKE_FLAGS ?=
COMMA = ,

THREADED = ^(base/(child_tasks|command_queue|console|coroutine|phase|pool|trace|watchdog)|net/remote|comm/|report/(board_store|events|prometheus|report|wandb|web_server)|data/(compress|import|lines|loader|parallel_zstd|preprocess|stream|wiki_bzip2)|store/(space|background|remote)|ops/threads|plan/search|recovery/|train/)
RUN_TESTS = JOBS=$(JOBS) tools/run_tests

# $(call build,FOLDER,FLAGS,TARGETS): configures the folder if that was not done or flags are given, then builds the
# targets, or everything. Plain `make` does not build the tests, which take as long again.
# The generator is chosen once per folder: Ninja if it is installed.
define build
	@if [ ! -f $(1)/build.ninja ] && [ ! -f $(1)/Makefile ]; then \
	    cmake --fresh -S . -B $(1) $$(command -v ninja >/dev/null && echo -G Ninja) $(2) $(CMAKE_FLAGS); \
	elif [ -n "$(CMAKE_FLAGS)" ]; then \
	    cmake -S . -B $(1) $(2) $(CMAKE_FLAGS); \
	fi
	@cmake --build $(1) --parallel $(JOBS) $(if $(3),--target $(3))
endef

.PHONY: all cuda release asan demo pictures board-pictures test test-all test-board test-slurm test-faults test-syscalls soak test-threads test-layouts test-peers bench check format fuzz install package wheel dist test-packages clean setup-build setup-test setup-all setup-fuzz setup-board

all:
	$(call build,build/release,,bevatron)

cuda:
	@$(MAKE) --no-print-directory all CMAKE_FLAGS="-DBEVATRON_CUDA=ON $(CMAKE_FLAGS)"

release:
	$(call build,build/release)

asan:
	$(call build,build/asan,-DCMAKE_BUILD_TYPE=Debug -DBEVATRON_SANITIZE=ON)

setup-build setup-test setup-all setup-fuzz setup-board:
	@[ "$(SETUP)" = no ] || tools/install_packages $(@:setup-%=%)

demo: setup-build
	$(call build,build/release,,bevatron make_stories)
	@BEVATRON=build/release/bevatron MAKE_STORIES=build/release/make_stories bash examples/demo/run.sh

pictures: release
	build/release/draw_pictures docs/pictures

# Both parts run even where one fails, so that one report shows everything; what failed is shown once more at the end, so
# that it is in the last part of the log.
test: setup-test
	@$(MAKE) --no-print-directory release
	@failed=; \
	$(MAKE) --no-print-directory check SETUP=no || failed="$$failed check"; \
	$(RUN_TESTS) build/release -LE '^all$$' || failed="$$failed tests"; \
	if [ -n "$$failed" ]; then tools/show_failures build/release; echo "make test: FAILED:$$failed"; exit 1; fi; \
	echo "make test: passed"

# At most this many tests may be flaky.
MOST_FLAKY = 3
test-all: setup-all
	@$(MAKE) --no-print-directory release
	@$(MAKE) --no-print-directory asan
	@rm -f build/flaky.txt build/asan/Testing/Temporary/LastTestsFailed.log build/release/Testing/Temporary/LastTestsFailed.log
	@failed=; \
	echo "make test-all: tests under AddressSanitizer and UndefinedBehaviorSanitizer"; \
	$(RUN_TESTS) --again 2 build/asan -LE '^slow$$' || failed="$$failed sanitizer-tests"; \
	echo "make test-all: tests that make test leaves out, release build"; \
	$(RUN_TESTS) --again 2 build/release -L '^all$$' || failed="$$failed tests"; \
	[ ! -s build/flaky.txt ] || sed 's/^/make test-all: flaky: /' build/flaky.txt; \
	if [ -s build/flaky.txt ] && [ "$$(wc -l <build/flaky.txt)" -gt $(MOST_FLAKY) ]; then failed="$$failed flaky-tests"; fi; \
	if [ -n "$$failed" ]; then tools/show_failures build/asan build/release; echo "make test-all: FAILED:$$failed"; exit 1; fi; \
	echo "make test-all: passed"

test-board: setup-board
	$(call build,build/release,,bevatron)
	@BEVATRON_TEST_BOARD=yes BEVATRON=build/release/bevatron bash tests/cli/test_board_page.sh --times

board-pictures: setup-board
	$(call build,build/release,,bevatron)
	$(PYTHON) -B tests/board/pictures.py build/release/bevatron docs/pictures

test-slurm: setup-all release
	@$(RUN_TESTS) build/release -R '^parallel/(slurm|netns|recipes_slurm|recipe_roberta|memory_slurm)'

test-faults: setup-test release
	@BEVATRON=build/release/bevatron bash tests/faults/run.sh build/faults $(ROWS)

test-syscalls: setup-test release
	@BEVATRON=build/release/bevatron bash tests/faults/syscalls.sh build/syscalls
	@BEVATRON=build/release/bevatron bash tests/faults/errors.sh build/syscalls

SOAK_FAULTS ?= 100
SOAK_SEED ?= 1
SOAK_JOBS ?= $(shell expr $(JOBS) / 2)
soak: all
	@BEVATRON=build/release/bevatron bash tests/faults/$(if $(SOAK_SEEDS),soaks.sh build/soak $(SOAK_FAULTS) $(SOAK_JOBS) $(SOAK_SEEDS),soak.sh build/soak $(SOAK_FAULTS) $(SOAK_SEED))

# The tests whose code starts threads. ThreadSanitizer wants its memory at places that randomised addresses may take.
test-threads: setup-test
	$(call build,build/tsan,-DCMAKE_BUILD_TYPE=RelWithDebInfo -DBEVATRON_THREAD_SANITIZE=ON)
	@JOBS=$(JOBS) setarch -R tools/run_tests build/tsan -LE slow -R '$(THREADED)'

test-layouts: release
	@bash tests/layouts/run.sh build/release/tests/layouts all

test-peers: release
	@failed=; \
	for script in tests/peers/*.py; do \
	    [ -f "$$script" ] || { echo "test-peers: no scripts in tests/peers"; break; }; \
	    echo "test-peers: $$script"; \
	    BEVATRON=build/release/bevatron OTHER_PYTHON=$(OTHER_PYTHON) $(PYTHON) "$$script" || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-peers: FAILED:$$failed"; exit 1; fi

bench: release
	@BUILD=build/release PYTHON=$(PYTHON) bash bench/run.sh $(BENCH)

check: setup-test
	@failed=0; \
	tools/check_includes || failed=1; \
	tools/check_style || failed=1; \
	tools/check_format || failed=1; \
	exit $$failed

format:
	clang-format -i $$(find src tests bench examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')

fuzz: setup-fuzz
	$(call build,build/fuzz,-DCMAKE_C_COMPILER=clang -DBEVATRON_FUZZ=ON -DBEVATRON_WERROR=OFF)
	@tools/run_fuzzers build/fuzz $(FUZZ_SECONDS)

install:
	$(call build,build/release,,bevatron help_pages)
	cmake --install build/release --prefix $(PREFIX) --strip

# Packages are for other machines: their module has code for all GPUs.
OTHER = $(if $(ARCHITECTURE),-$(ARCHITECTURE))
PACKAGE_BUILD = build/$(if $(filter yes,$(PORTABLE)),portable$(OTHER),package)
package:
	@[ "$(PORTABLE)" != yes ] || tools/make_sysroot build/sysroot$(OTHER) $(ARCHITECTURE)
	$(call build,$(PACKAGE_BUILD),$(if $(filter yes,$(PORTABLE)),-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/build/sysroot$(OTHER)/portable.cmake) -DBUILD_TESTING=OFF -DBEVATRON_CUDA_ARCHS=80$(COMMA)90,bevatron help_pages)
	@tools/make_packages $(PACKAGE_BUILD) && ls $(PACKAGE_BUILD)/packages/*

wheel:
	@$(MAKE) --no-print-directory package PORTABLE=yes
	@$(PYTHON) tools/make_wheels build/portable$(OTHER)/packages

dist:
	@JOBS=$(JOBS) PYTHON="$(PYTHON)" CMAKE_FLAGS="$(CMAKE_FLAGS)" tools/make_dist build/dist

test-packages: wheel
	@bash tests/packages/run.sh build/portable$(OTHER)/packages

clean:
	rm -rf build demo

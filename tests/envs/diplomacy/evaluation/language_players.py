"""A toy language model, and a run's adapter that plays differently."""

import torch
import yaml

from sparring.agents.language.models.adapters import Adapters, LoraShape, save_adapter
from sparring.agents.language.models.load import load_model
from sparring.configs.language import LanguageModelConfig
from sparring.configs.serialization import to_plain
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.toy_folder import toy_folder


def make_run(folder, *, name="final.pt", seed=0):
    """Save a toy model in `model`, and a run's adapter and configuration in `run`; return the adapter."""
    model_folder, run = folder / "model", folder / "run"
    if not model_folder.exists():
        toy_folder(model_folder)
    model, _ = load_model(LanguageModelConfig(name=str(model_folder)))
    adapters = Adapters(model, LoraShape(4, 8.0), seed=seed)
    torch.manual_seed(seed)
    weights = {key: torch.randn_like(value) for key, value in adapters.weights().items()}
    run.mkdir(exist_ok=True)
    config = to_plain(small_config(f"model.name={model_folder}"))
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    save_adapter(run / name, adapters.model, adapters.shape, weights, training={"run": "run", "step": 3})
    return run / name

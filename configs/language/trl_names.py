"""Names of options in TRL's `GRPOConfig`, and what they are called here."""

from __future__ import annotations

from sparring.configs.foreign_names import ForeignName

TRL = ("TRL",)
NAMES = {
    "num_generations": ForeignName("grpo.samples_per_group", TRL),
    "beta": ForeignName("grpo.kl_beta", TRL),
    "epsilon": ForeignName("grpo.ppo_epsilon_low", TRL, "the lower side; the upper one is grpo.ppo_epsilon_high"),
    "epsilon_high": ForeignName("grpo.ppo_epsilon_high", TRL),
    "num_iterations": ForeignName("grpo.epochs", TRL),
    "max_steps": ForeignName("grpo.steps", TRL, "a step is a rollout with all passes over it"),
    "scale_rewards": ForeignName("grpo.scale_advantages", TRL, "true or false"),
    "max_prompt_length": ForeignName("model.max_prompt_tokens", TRL, "a longer prompt is refused, not cut"),
    "lora_r": ForeignName("model.lora_rank", TRL),
    "model_name_or_path": ForeignName("model.name", TRL, "a folder, tiny or smollm2; nothing is downloaded"),
}
BY_KEY = {f"{section}{name}": NAMES[name] for section in ("", "grpo.", "model.", "train.") for name in NAMES}
"""The same in the sections in which users write them."""

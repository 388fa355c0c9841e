"""Group relative policy optimization (Shao et al. 2024, arXiv:2402.03300) for language models under exact constraints.

`rollouts` plays forked games, `objective` holds advantages, loss and reference, `trainer` runs the steps.
"""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace(
    "sparring.agents.language.grpo.trainer:GRPOTrainer",
    "sparring.agents.language.grpo.trainer:fit",
    extra="llm",
    check_sources="sparring.agents.language.grpo.sources:check_sources",
    preview="sparring.agents.language.models.load:preview",
)

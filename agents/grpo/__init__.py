"""Group relative policy optimization (Shao et al. 2024, arXiv:2402.03300) for language models under exact constraints.

`rollouts` plays forked games, `objective` holds advantages, loss and reference, `trainer` runs the steps.
"""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace(
    "sparring.agents.grpo.trainer:GRPOTrainer",
    "sparring.agents.grpo.trainer:fit",
    extra="llm",
    check_sources="sparring.agents.grpo.sources:check_sources",
    preview="sparring.agents.llm.models.load:preview",
)

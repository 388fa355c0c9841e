"""Behaviour cloning of bots by a language model."""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace(
    "sparring.agents.language.cloning.trainer:CloneTrainer",
    extra="llm",
    processes=False,
    preview="sparring.agents.language.models.load:preview",
)

"""Small policies of Diplomacy that learn the orders of a search."""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace(  # it rejects torchrun itself
    "sparring.envs.diplomacy.training.distill.trainer:DistillTrainer", needs=("sparring.configs.language",)
)

"""Small policies of Diplomacy that learn the orders of a search."""

from sparring.configs.core.parts import TrainerPlace

TRAINER = TrainerPlace("sparring.agents.distill.trainer:DistillTrainer")  # it refuses torchrun itself

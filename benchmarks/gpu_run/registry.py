"""The parts by name, in order of importance, each with a time limit; together they stay within nine minutes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from benchmarks.gpu_parts.part import Measure

WHOLE = 530.0
"""Seconds for all parts together, process starts included; the rest of nine minutes is for the page."""


@dataclass(frozen=True)
class Part:
    """`measure` of the module `benchmarks.gpu_parts.<module>`, with `limit` seconds."""

    name: str
    module: str
    limit: float
    title: str

    def load(self) -> Measure:
        """Import the part's function, late: a missing package of one part does not affect others."""
        measure: Measure = importlib.import_module(f"benchmarks.gpu_parts.{self.module}").measure
        return measure


PARTS = (
    Part("compile", "compile_kernels", 60.0, "Compiling the kernels"),
    Part("kernels", "dogfight_kernels", 50.0, "Dogfight: kernels compared with the CPU's"),
    Part("captured", "captured_step", 25.0, "Dogfight: the captured step"),
    Part("speed", "dogfight_speed", 50.0, "Dogfight: env steps per second"),
    Part("air_combat", "air_combat", 60.0, "Air combat: agreement with the CPU, aircraft steps per second"),
    Part("update", "ppo_update", 85.0, "PPO: updates of unified_dr_gpu_v3 in fp32, bf16 and fp16"),
    Part("resume", "ppo_resume", 35.0, "PPO: a deterministic run interrupted and resumed"),
    Part("diplomacy", "diplomacy_phases", 65.0, "Diplomacy: agreement with the CPU, phases per second"),
    Part("tokens", "llm_tokens", 40.0, "SmolLM2: tokens per second"),
    Part("grpo", "grpo_steps", 50.0, "GRPO: ten steps"),
)
NAMES = tuple(part.name for part in PARTS)

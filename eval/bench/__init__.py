"""`sparring bench`: what this machine does, in a minute."""

from sparring.configs.core.parts import CommandPlace

COMMAND = CommandPlace(
    "sparring.eval.bench.speed", "what this machine does, beside published machines", trains=False, order=3
)

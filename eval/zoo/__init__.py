"""Released policies and one's own as a table, each with its card; adding a run to them."""

from sparring.configs.core.parts import CommandPlace

COMMAND = CommandPlace(
    "sparring.eval.zoo.cards",
    "policies and their figures; policies add RUN puts your own run beside them",
    trains=False,
    order=2,
)

"""Settings of the search player, read from its name: `search`, `search:seconds=0.5`, `search:positions=8000,seed=3`.

`opponents` names one model of the other powers, or several joined by +. The search then weights each model by how well
it explains a power's orders (`beliefs.py`). The first model has the largest weight at the start. A model is a bot,
`noisy_dumbbot`, `level1` (a bot's orders improved once), a policy or a Python object. `adaptive` stands for
`CANDIDATES`.

Reading the settings needs neither torch nor Warp, so a wrong key or value is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.search.regret import REGRET

SEARCH = "search"
RELEASED = {"released/diplomacy_search": f"{SEARCH}:seconds=0.35,opponents=dumbbot,near=0"}
"""Searches that have a card beside the released policies, and their settings."""
LEVEL_ONE, NOISY = "level1", "noisy_dumbbot"
BUILT = (LEVEL_ONE, NOISY)
"""Models that exist only within the search."""
STUDENT = "released/diplomacy_student"
ADAPTIVE = "adaptive"
CANDIDATES = ("dumbbot", STUDENT, NOISY, f"stochastic:{STUDENT}", "chaos", "dumbbot_seed", "territorial", "random")
"""The players that `adaptive` expects."""
FORMS = (ASCENT := "ascent", REGRET)
"""How orders are found: changes of the best ones so far, or regret matching over candidates of all powers."""
SHARES = 14
"""Each of the seven powers' searches one level below has 1 / `SHARES` of the budget, so half of it together."""
LEAST, LEAST_SECONDS = 100, 0.001
EXPLOIT, ATTACK_POSITIONS = "exploit", 2000
"""`exploit:PLAYER` is a search that takes all others for PLAYER, with this many positions a decision."""
ALLOWED = {"positions": "[100, 100000000]", "seconds": "[0.001, 3600]", "seed": "[0, 2147483647]", "near": "[0, 10]"}


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search; the budget of a decision is `positions`, or `seconds` where these are 0."""

    proposals: str = "dumbbot"
    """Bot whose orders are the first candidates; or a policy or Python object, whose orders join those of DumbBot."""
    opponents: str = ADAPTIVE
    """Models of the other powers. After the first phase a model that is a bot orders for its power. In place of the
    others the first bot among the models does, or DumbBot."""
    form: str = ASCENT
    """One of `FORMS`."""
    positions: int = 0
    """Adjudicated phases of a decision. The orders then depend only on the game so far, its id and the seed."""
    seconds: float = 0.0
    seed: int | None = None
    """None: drawn at random and kept secret."""
    near: float = 0.1
    """Centres by which the orders may be worse than the best ones, to make them unpredictable."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models of the other powers."""
        names = self.opponents.split("+")
        return tuple(dict.fromkeys(name for word in names for name in (CANDIDATES if word == ADAPTIVE else (word,))))

    @property
    def bot(self) -> str:
        """Bot that plays on for all powers."""
        return next((name for name in self.models if name in BOTS), "dumbbot")

    @property
    def below(self) -> SearchSettings | None:
        """Settings of the searches one level below, None without any."""
        if LEVEL_ONE not in self.models and self.form != REGRET:
            return None
        positions, seconds = self.positions // SHARES, self.seconds / SHARES
        return SearchSettings("dumbbot", self.bot, ASCENT, positions, seconds, self.seed)  # compares one phase only


def read_settings(text: str) -> SearchSettings:
    """Read `search:KEY=VALUE,...`; without a budget it has 0.1 seconds.

    Raises `InputError` for an unknown key or form, an empty name, a value out of range, and two budgets.
    """
    keys = [field.name for field in fields(SearchSettings)]
    values: dict[str, Any] = {}
    text = RELEASED.get(text, text)
    for word in filter(None, text.removeprefix(SEARCH).removeprefix(":").split(",")):
        key, equals, value = word.partition("=")
        choose(f"key of {text}", key.strip(), keys)
        if not equals or key in values:
            raise InputError(f"{text}: give {key} once, as in {SEARCH}:{key}=VALUE")
        values[key] = _number(text, key, value) if key in ALLOWED else value
    if len({"positions", "seconds"} & values.keys()) > 1:
        raise InputError(f"{text}: positions and seconds are two budgets; leave one out")
    if not {"positions", "seconds"} & values.keys():
        values["seconds"] = 0.1
    settings = SearchSettings(**values)
    choose("form", settings.form, FORMS)
    for key, names in (("proposals", (settings.proposals,)), ("opponents", settings.models)):
        if not all(names):
            raise InputError(f"{text}: {key} is empty; name a bot or a policy, such as dumbbot")
    if settings.form == REGRET and "opponents" not in values:
        settings = replace(settings, opponents=settings.bot)
    if settings.form == REGRET and (settings.proposals, settings.opponents) != ("dumbbot", settings.bot):
        raise InputError(f"{text}: form={REGRET} takes one bot as opponents, and no proposals; leave the others out")
    if (below := settings.below) and (0 < below.positions < LEAST or 0 < below.seconds < LEAST_SECONDS):
        raise InputError(
            f"{text}: searches for every power, which takes positions={SHARES * LEAST} or "
            f"seconds={SHARES * LEAST_SECONDS:g} at least"
        )
    return settings


def read_target(text: str) -> str:
    """Return the player that `exploit:PLAYER` takes all others for. Raises `InputError` for none or an attack."""
    target = text.removeprefix(EXPLOIT).removeprefix(":")
    if not target or target.partition(":")[0] == EXPLOIT:
        raise InputError(f"{text}: name the player that the others are, as in {EXPLOIT}:{SEARCH}:positions=2000")
    if target.partition(":")[0] == SEARCH or target in RELEASED:
        read_settings(target)
    return target


def with_seed(text: str, seed: int) -> str:
    """Return the name of a search with the seed that was used."""
    text = RELEASED.get(text, text)
    return text if "seed=" in text else f"{text}{',' if ':' in text else ':'}seed={seed}"


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value) if key in ("seconds", "near") else int(value)
    except ValueError:
        raise InputError(f"{text}: {key}={value} is not a number; it must be in {ALLOWED[key]}") from None
    if wrong := complaint(number, ALLOWED[key]):
        raise InputError(f"{text}: {key}={value} {wrong}")
    return number

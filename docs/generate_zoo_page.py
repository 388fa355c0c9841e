"""Write docs/model_zoo.md and docs/agents.md from checkpoints/released/: `python docs/generate_zoo_page.py`.

A policy NAME.pt has its card NAME.md beside it; a folder with a manifest.json is a language model. Sizes and training
commands are read from the files, so a model that is added or replaced appears here; a test compares the page with them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[0] = str(ROOT)

from safetensors import safe_open  # noqa: E402

from sparring.eval.zoo.cards import NOT_MEASURED, NOT_RECORDED, columns  # noqa: E402

PAGE, AGENTS = ROOT / "docs" / "model_zoo.md", ROOT / "docs" / "agents.md"
RELEASED = ROOT / "checkpoints" / "released"
STRENGTH = ("bots", "held out", "best response", "strongest attack")
HEAD = """\
<!-- Written by docs/generate_zoo_page.py from checkpoints/released/: edit the cards there. -->

# Model zoo

These trained models come with the package. `--ckpt released/NAME` and `--opponents released/NAME` name a policy in
every command; `tiny` is the language model. `sparring.load("released/NAME")` loads a policy.

*Held out* has the mean and the worst of the [held-out opponents](opponents.md#held-out-opponents). A *best response* is
an opponent trained against the model alone, cold from random weights or warm from the model's own, for 0.5, 1 and 2
million steps ([how](results/bots_only.md#best-responses-the-released-policy)). *Attack* is the strongest of several
[attacks](results/self_play.md#the-maximum-of-several-attacks). These columns have wins only, which are also low against
a policy that only [flees](results/self_play.md#the-floor-a-policy-that-only-flees).

| name | game | weights | bots, win % | held out, win % | best response, win % | attack, win % |
| --- | --- | ---: | --- | --- | --- | --- |
"""
STEPS = "after 0.5, 1, 2 M steps: "
"""What the page says of all best responses, and each card of its own."""
SECOND = """
## How they were made

All are under MIT. Minutes are by the clock of the machine on the card.

| name and card | minutes | command to repeat |
| --- | ---: | --- |
"""
TAIL = """
## Use one

[The agents](agents.md) has lines to copy. A run begins with the weights of a policy by `init_from=released/NAME`.

To add your own run, use `sparring policies add RUN --licence MIT`. It copies the policy to `checkpoints/zoo/`, with a
card made from the run's files. `zoo/NAME` then names it like a released one, and `sparring policies` prints both
tables. A `manifest.json` beside every file has its SHA-256, which is verified when the model is loaded.
"""


AGENTS_HEAD = """\
<!-- Written by docs/generate_zoo_page.py from checkpoints/released/. -->

# The agents

Copy a line to watch, play, load or exploit a released agent. The [model zoo](model_zoo.md) has their figures. `watch`
writes a replay, which opens in a browser. `exploit` prints what a made opponent gains, with an interval; stop it with
Ctrl-C, and the same line goes on.
"""
LINES = {
    "watch": "sparring eval --ckpt {name} {options}--replay match.html",
    "play": "sparring play {seats} {name}",
    "load": "python -c \"import sparring; print(sparring.load('{name}').env_id)\"",
    "exploit": "sparring exploit {name}",
}
GAME_OPTIONS = {"diplomacy": "--games 7 ", "dogfight": "--games 20 ", "air_combat": "--games 20 "}
LANGUAGE_LINES = """\
sparring eval --env diplomacy --ckpt {name} --opponents dumbbot --games 7 --replay match.html  # watch
sparring play --env diplomacy --opponents {name}                                               # play
sparring exploit {name} --env openspiel --id kuhn_poker                                        # exploit, in poker
"""


def page() -> str:
    """Return the page of figures."""
    models = [policy(path) for path in sorted(RELEASED.glob("*.pt"))]
    models += [language_model(path.parent) for path in sorted(RELEASED.glob("*/manifest.json"))]
    strength = [
        [name, rows["game"], rows["weights"], *(rows[key].removeprefix(STEPS) for key in STRENGTH)]
        for name, rows, _ in models
    ]
    origin = [[f"[{name}]({card})", rows["minutes"], installed(rows["command"])] for name, rows, card in models]
    return HEAD + _rows(strength) + SECOND + _rows(origin) + TAIL


def installed(command: str) -> str:
    """Return a card's command in the form of an installed package; a command of an earlier commit stays as it is."""
    if "git checkout" in command:
        return command
    return command.replace("python train.py", "sparring train").replace("python eval/exploit.py", "sparring exploit")


def agents() -> str:
    """Return the page of lines to copy: of each policy all, of a language model those that it has."""
    blocks = []
    for path in sorted(RELEASED.glob("*.pt")):
        options = next(value for game, value in GAME_OPTIONS.items() if path.stem.startswith(game))
        name, seats = f"released/{path.stem}", "--opponents" if path.stem.startswith("diplomacy") else "--opponent"
        lines = {what: line.format(name=name, options=options, seats=seats) for what, line in LINES.items()}
        width = max(map(len, lines.values()))
        blocks.append((path.stem, "".join(f"{line:<{width}}  # {what}\n" for what, line in lines.items())))
    for manifest in sorted(RELEASED.glob("*/manifest.json")):
        blocks.append((manifest.parent.name, LANGUAGE_LINES.format(name=manifest.parent.name)))
    return AGENTS_HEAD + "".join(f"\n## `{name}`\n\n```bash\n{lines}```\n" for name, lines in blocks)


def policy(path: Path) -> tuple[str, dict[str, str], str]:
    """Return name, columns and link to the card of a policy."""
    return f"`{path.stem}`", columns(path), f"../checkpoints/released/{path.stem}.md"


def language_model(folder: Path) -> tuple[str, dict[str, str], str]:
    """Return the same of a language model; what trained it is in its manifest."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    config = manifest["training"]["config"]
    weights = folder / "model.safetensors"
    results = (ROOT / "docs" / "results" / "diplomacy.md").read_text(encoding="utf-8")
    minutes = re.search(r"\((\d+) beside other work, as it was made\)", results)
    with safe_open(str(weights), "pt") as tensors:
        size = sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118 - not a dict
    rows = dict.fromkeys(STRENGTH, NOT_MEASURED) | {
        "game": f"`{config['env']['id']}`, text",
        "weights": f"{size:,}",
        "bots": "[results](results/diplomacy.md)",
        "minutes": minutes[1] if minutes else NOT_RECORDED,
        "command": f"`python train.py +run={config['run']}`",
    }
    return f"`{folder.name}`", rows, "language_models.md#the-models"


def _rows(rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    for path, text in ((PAGE, page()), (AGENTS, agents())):
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))

"""Write docs/model_zoo.md from checkpoints/released/: `python docs/generate_zoo_page.py`.

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

from sparring.agents.policies.checkpoint import load_checkpoint  # noqa: E402

PAGE = ROOT / "docs" / "model_zoo.md"
RELEASED = ROOT / "checkpoints" / "released"
UNKNOWN = "none: `eval/exploit.py` takes players of the dogfight only"
HEAD = """\
<!-- Written by docs/generate_zoo_page.py from checkpoints/released/: edit the cards there. -->

# Model zoo

Trained models that come with the repository and the package. `--ckpt released/NAME` and `--opponents released/NAME`
name a policy in every command of `eval/`, `tiny` the language model. *Held out* are opponents that no run trains
against ([opponents](opponents.md#held-out-opponents)): their mean and the worst of them. A *best response* is an
opponent trained against the model alone, cold from random weights or warm from the model's own; its win rate measures
what the table hides ([how](results/bots_only.md#best-responses-the-released-policy)), as does the strongest of several
[attacks](results/self_play.md#the-maximum-of-several-attacks).

| name | task | size, weights | table, win % | held out, win % | best response, win % | attack, win % | command | card |
| --- | --- | ---: | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
## Use one

```
python eval/run.py --ckpt released/dogfight_quickstart --replay match.html        # its table, and matches to watch
python eval/run.py --ckpt final.pt --opponents released/dogfight_quickstart       # your policy against it
python eval/run.py --env diplomacy --ckpt tiny --opponents dumbbot --games 70     # the language model
python train.py +run=quickstart init_from=released/dogfight_quickstart            # begin with its weights
```

In Python: `sparring.load("released/dogfight_quickstart").predict(obs)`; see [first agent](tutorials/first_agent.md).
Every file's SHA-256 is in a `manifest.json` beside it and is verified when the model is loaded.
"""


def page() -> str:
    """Return the page."""
    rows = [policy_row(path) for path in sorted(RELEASED.glob("*.pt"))]
    rows += [language_model_row(path.parent) for path in sorted(RELEASED.glob("*/manifest.json"))]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + TAIL


def policy_row(path: Path) -> list[str]:
    """Return the row of a policy; its table, command and best response are those of its card."""
    checkpoint = load_checkpoint(path, "cpu")
    weights = sum(parameter.numel() for parameter in checkpoint.network.parameters())
    card = path.with_suffix(".md")
    facts = dict(re.findall(r"^\| ([^|]+?) \| (.+?) \|$", card.read_text(encoding="utf-8"), re.MULTILINE))
    command = re.search(r"`[^`]+`", facts["trained by"])
    assert command, f"{card}: has no command under 'trained by'"
    link = f"[card](../checkpoints/released/{card.name})"
    rules = checkpoint.contract.get("rules")
    task = f"`{checkpoint.contract['id']}`" + (f", {rules} rules" if rules else "")
    best = next((f"{key}: {value}" for key, value in facts.items() if key.startswith("best response")), UNKNOWN)
    best = best.removeprefix("best response ").partition(" (")[0]  # without how it was measured, which the card says
    attack = facts.get("strongest attack", "not measured").partition(" (")[0]
    held_out = facts.get("held out, win % of 400 games") or facts.get("other bots, 70 games each", "not measured")
    held_out = held_out.partition(";")[0]
    return [
        f"`{path.stem}`",
        task,
        f"{weights:,}",
        facts.get("win % of 400 games") or facts["against six DumbBots"],
        held_out,
        best,
        attack,
        command[0],
        link,
    ]


def language_model_row(folder: Path) -> list[str]:
    """Return the row of a language model; what trained it is in its manifest."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    config = manifest["training"]["config"]
    with safe_open(str(folder / "model.safetensors"), "pt") as tensors:
        weights = sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118 - not a dict
    command = f"`python train.py +run={config['run']}`"
    table = "[results](results/diplomacy.md)"
    card = "[models](language_models.md#the-models)"
    return [
        f"`{folder.name}`",
        f"`{config['env']['id']}`, text",
        f"{weights:,}",
        table,
        "none",
        UNKNOWN,
        "not measured",
        command,
        card,
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

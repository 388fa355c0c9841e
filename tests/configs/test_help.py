"""Help of a section: each option with default, allowed values and meaning."""

import re

import pytest

from sparring.configs.core.errors import InputError, UnknownNameError, as_called
from sparring.configs.help import OVERVIEW, SECTIONS, help_on, help_text, meaning, section_help
from sparring.configs.kinds import declared, run_kinds
from sparring.configs.load import runs


def test_each_option_has_description():
    keys = {key for kind in run_kinds() for key in declared(kind)}
    assert [key for key in keys if not meaning(key)] == []
    assert [key for key in keys if not meaning(key).endswith((".", ")", "..."))] == []


def test_description_is_self_contained():
    """`--help SECTION` and errors show single options, so no description refers to another one."""
    leaning = re.compile(
        r"^(The same|As for|Such|Also|Of|Per|For|At|Added|0|Above 0)\b|\b(that case|such tokens|they hold)\b"
    )
    keys = {key for kind in run_kinds() for key in declared(kind)}
    assert [(key, meaning(key)) for key in sorted(keys) if leaning.search(meaning(key))] == []


def test_full_help_lists_every_option_once_with_description():
    text = help_text()
    for section, about in SECTIONS.items():
        assert f"\n\n{section}: {about}\n{section_help(section)}" in text
    keys = {key for kind in run_kinds() for key in declared(kind)}
    assert sum(len(re.findall(r"^  [a-z]\S*=", section_help(name), re.MULTILINE)) for name in SECTIONS) == len(keys)


def test_overview_fits_one_screen_and_points_to_rest():
    lines = OVERVIEW.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    keys = {key for kind in run_kinds() for key in declared(kind)}
    assert len({key for line in lines if (key := line.strip().partition("=")[0]) in keys}) == 10
    named = re.findall(r"--help (\S+?),? ", OVERVIEW)
    assert {"runs", "options", "ppo", "ppo.clip", "all"} <= set(named)
    whole, run_list = help_on("all"), help_on("runs")
    assert [name for name in named if name != "all" and help_on(name) not in whole] == []
    assert [run for run in runs() if f"  {run} " not in run_list] == []
    assert help_on("options").count("\n  ppo.clip=0.2 ") == 1


def test_commands_are_shown_as_user_calls_them(monkeypatch):
    text = "python train.py +run=x; see python eval/run.py, eval/diplomacy_replay.py: no, or /home/me/train.py"
    assert as_called(text) == text
    monkeypatch.setattr("sys.argv", ["/usr/bin/sparring", "--help"])
    called = "sparring train +run=x; see sparring eval, sparring diplomacy-replay: no, or /home/me/train.py"
    assert as_called(text) == str(InputError(text)) == called


def test_section_help_uses_schema_docstrings():
    text = section_help("self_play")
    assert "  self_play.slots=4" in text
    assert "\n      Different snapshots in one rollout.\n" in text
    assert "ppo.clip" not in text


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("grpo", "  grpo.kl_target=0.0"),
        (
            "general",
            "      Continue the run of this name, with its own configuration; an existing `name` is continued too.",
        ),
        ("phases.0.stages", "  phases.0.stages.0.bots=[]"),
        ("ppo.clip", "  ppo.clip=0.2"),
        ("env", "      Last game year, after which a game ends."),
        ("grpo.ema_tau", "      Weight of the old average in each step. Needs grpo.use_ema_reference=true."),
    ],
)
def test_help_lists_sections_options_and_requirements(section, line):
    assert any(one.startswith(line) for one in section_help(section).splitlines())


def test_unknown_section_suggests_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown section 'selfplay': did you mean 'self_play'\?"):
        section_help("selfplay")

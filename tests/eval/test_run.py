"""The evaluation command: output, files, exit codes, and one-line errors."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from sparring.configs.core import status
from sparring.envs.dogfight.evaluation import command as dogfight
from sparring.envs.dogfight.evaluation.command import PHYSICS, EvaluationOptions, make_setting
from sparring.envs.dogfight.rules import BOTS, HELD_OUT, HELD_OUT_SCRIPTS
from sparring.eval import export, payoff, seeds
from sparring.eval import run as run_module
from sparring.eval.command import publish_results
from sparring.eval.options import parse
from sparring.eval.run import main
from tests.configs import messages

pytestmark = pytest.mark.usefixtures("long_steps")

SCRIPT = Path(__file__).resolve().parents[2] / "eval" / "run.py"
QUICK = ["--games", "2", "--threads", "1", "--device", "cpu"]


def run(*arguments):
    return main([*arguments, *QUICK])


def test_policy_is_evaluated_and_results_are_saved_beside_it(make_checkpoint, capsys):
    path = make_checkpoint()
    assert run("--ckpt", "pupil", "--opponents", "ace", "brawler") == 0
    out, err = capsys.readouterr()
    assert out.startswith("# pupil: classic rules, physics none, bot_rate=tick, deterministic\n")
    assert "| ace " in out
    assert "4/4" in err  # The bar, of games.
    assert f"Wrote {path.parent / 'eval.json'}" in out
    assert (path.parent / "eval.md").read_text() in out
    content = json.loads((path.parent / "eval.json").read_text())
    assert [record["opponent"] for record in content["records"]] == ["ace", "brawler"]
    assert (content["run"], content["checkpoint"]) == ("pupil", "checkpoints/pupil/final.pt")
    assert content["training"]["env_steps"] == 7
    assert content["command"].startswith("python eval/run.py --ckpt pupil")


@pytest.mark.parametrize("kind", ["eval", "sprt"])
def test_checkpoints_of_one_run_keep_results_separate(make_checkpoint, kind):
    folder = make_checkpoint().parent
    make_checkpoint("pupil/step_4096.pt", seed=2)
    options = ["--opponents", "ace", *(["--sprt", "--max-games", "2"] if kind == "sprt" else []), "--quiet"]
    for name in ("pupil", "pupil/step_4096"):
        run("--ckpt", name, *options)
    written = {path.name for path in folder.glob(f"{kind}*")}
    assert written == {f"{kind}.json", f"{kind}.md", f"{kind}.step_4096.json", f"{kind}.step_4096.md"}


def test_released_policy_results_stay_out_of_repository():
    root = SCRIPT.parents[1]
    names = ["eval.dogfight_bots_only.json", "eval.md", "sprt.x.md", "x.onnx", "x.pt", "manifest.json"]
    paths = [f"checkpoints/released/{name}" for name in names]
    done = subprocess.run(["git", "check-ignore", *paths], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == paths[:4]


def test_same_command_writes_same_bytes(make_checkpoint, tmp_path):
    make_checkpoint()
    written = []
    for _ in range(2):
        assert run("--ckpt", "final.pt", "--opponents", "chaser", "--out", str(tmp_path), "--stochastic") == 0
        written.append((tmp_path / "eval.json").read_bytes())
    assert written[0] == written[1]
    assert json.loads(written[0])["deterministic"] is False


@pytest.mark.parametrize(("arguments", "deterministic"), [([], True), (["--stochastic"], False)])
def test_stochastic_applies_to_every_policy(arguments, deterministic, make_checkpoint, monkeypatch, tmp_path):
    make_checkpoint()
    make_checkpoint("other/final.pt", seed=2)
    seen = []

    def spy(entrants, **options):
        seen.extend(entrant.deterministic for entrant in entrants)
        return make_setting(entrants, **options)

    monkeypatch.setattr(dogfight, "make_setting", spy)
    run("--ckpt", "pupil", "--opponents", "other", "--out", str(tmp_path), *arguments)
    assert seen == [deterministic, deterministic]


def test_waiting_threads_do_not_spin(checkpoints, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")  # So that the variable is put back afterwards.
    arguments = ["--ckpt", "bot:brawler", "--opponents", "chaser", "--quiet"]
    assert run(*arguments) == 0
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"  # A person's own choice stands.
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert run(*arguments) == 0
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


def test_checkpoint_can_be_opponent(make_checkpoint, tmp_path, capsys):
    make_checkpoint()
    make_checkpoint("pupil/step_5.pt", seed=2)
    assert run("--ckpt", "pupil", "--opponents", "pupil/step_5.pt", "--out", str(tmp_path / "new")) == 0
    assert "| pupil/step_5 " in capsys.readouterr().out
    assert (tmp_path / "new" / "eval.json").is_file()


def test_evaluating_bot_writes_no_file_without_out(checkpoints, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("--ckpt", "bot:brawler", "--opponents", "chaser", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_failed_requirement_is_named_and_sets_exit_code(checkpoints, capsys):
    required = ["--require", "do_nothing>=0.01", "--require", "brawler@none>=1", "--require", "worst>=0"]
    assert run("--ckpt", "bot:do_nothing", "--opponents", "do_nothing,brawler", *required, "--quiet") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "'do_nothing>=0.01' failed: 0.0000 (0 of 2 won), regime none" in lines[0]
    assert "'brawler@none>=1' failed" in lines[1]


def test_replay_and_gif_are_written(checkpoints, tmp_path):
    page, picture = tmp_path / "new" / "match.html", tmp_path / "match.gif"
    watched = ["--regimes", "glass_cannon", "--replay", str(page), "--gif", str(picture)]
    assert run("--ckpt", "bot:brawler", "--opponents", "chaser", *watched) == 0
    assert "brawler vs chaser" in page.read_text()
    assert picture.read_bytes().startswith(b"GIF89a")


def test_ladder_is_printed_and_written_to_out(checkpoints, tmp_path, capsys):
    assert run("--ladder", "--opponents", "ace", "brawler", "--ckpt", "bot:chaser", "--out", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "ladder.md").read_text() in out
    content = json.loads((tmp_path / "ladder.json").read_text())
    assert content["kind"] == "ladder"
    assert len(content["records"]) == 6
    assert content["anchor"] == {"player": "brawler", "elo": 0.0}
    assert {rating["player"] for rating in content["ratings"]["none"]} == {"ace", "brawler", "chaser"}


def test_every_regime_of_ladder_is_rated_from_anchor(checkpoints, capsys):
    regimes = ["--regimes", "none", "knife_fight", "--anchor", "chaser=500"]
    assert run("--ladder", "--opponents", "ace", "chaser", *regimes) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("| chaser | +500 | fixed | 2 |") == 2
    assert out.count("chaser fixed at 500") == 2


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_run"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, make_checkpoint, check_row):
    make_checkpoint()
    check_row(main, row)


@pytest.mark.parametrize(("options", "shown"), [([], True), (["--quiet"], False)])
def test_slow_stages_are_announced_unless_quiet(options, shown, checkpoints, monkeypatch, capsys):
    compile_simulator = dogfight.make_setting

    def slowly(*arguments, **keywords):
        time.sleep(0.3)
        return compile_simulator(*arguments, **keywords)

    monkeypatch.setattr(status, "PATIENCE", 0.05)
    monkeypatch.setattr(dogfight, "make_setting", slowly)
    assert run("--ckpt", "bot:ace", "--opponents", "chaser", *options) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"{status.LOADING}\n{status.COMPILING}\n") if shown else err == ""


def test_unknown_name_creates_no_folder(checkpoints, tmp_path):
    assert run("--ckpt", "bot:ace", "--opponents", "brawlr", "--out", str(tmp_path / "new")) == 2
    assert not (tmp_path / "new").exists()


def test_damaged_checkpoint_is_named(make_checkpoint, error_line):
    path = make_checkpoint()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert "is damaged" in error_line(main, ["--ckpt", "pupil", *QUICK])


def test_evaluation_defaults():
    options = parse(EvaluationOptions, ["--ckpt", "final.pt"])
    assert (options.games, options.regimes, options.opponents) == (400, ("none",), BOTS + HELD_OUT)
    assert parse(EvaluationOptions, ["--ladder"]).opponents == BOTS
    assert parse(EvaluationOptions, ["--ckpt", "x", "--opponents", "bots"]).opponents == BOTS
    assert parse(EvaluationOptions, ["--ckpt", "x", "--opponents", "held_out,ace"]).opponents == (*HELD_OUT, "ace")


def test_unplayable_held_out_policies_are_skipped_and_named(make_checkpoint, tmp_path, capsys):
    """Released policies cannot play under challenge rules, and a member of the set does not meet itself."""
    make_checkpoint(rules="challenge", obs_dim=224)
    require = ["--require", "held_out:mean>=0", "--require", "released/dogfight_strong_dr>=0"]
    arguments = ["--ckpt", "pupil", "--opponents", "ace", "held_out", *require, "--out", str(tmp_path)]
    assert run(*arguments) == 1
    out, err = capsys.readouterr()
    assert "'released/dogfight_strong_dr>=0' failed: released/dogfight_strong_dr was left out" in err
    content = json.loads((tmp_path / "eval.json").read_text())
    assert [record["opponent"] for record in content["records"]] == ["ace", *HELD_OUT_SCRIPTS]
    assert [note.split()[0] for note in content["notes"]] == list(HELD_OUT[len(HELD_OUT_SCRIPTS) :])
    assert "Note: released/dogfight_unified_dr of the held-out set is left out" in out
    options = parse(EvaluationOptions, ["--ckpt", "released/dogfight_unified_dr"])
    located = dogfight.find(options.ckpt, False), [dogfight.find(name, True) for name in options.opponents]
    opened = dogfight.open_players(options, *located, "cpu")
    assert [opponent.name for opponent in opened.opponents] == [*BOTS, *HELD_OUT_SCRIPTS, HELD_OUT[-1]]
    (note,) = opened.notes
    assert note.startswith(f"{HELD_OUT[-2]} of the held-out set is left out: the player itself")
    named = parse(EvaluationOptions, ["--ckpt", HELD_OUT[-2], "--opponents", HELD_OUT[-2]])
    own = dogfight.find(named.ckpt, False)
    assert len(dogfight.open_players(named, own, [own], "cpu").opponents) == 1  # by its own name it does


def test_all_regimes_are_levels_and_eight_regimes():
    assert parse(EvaluationOptions, ["--ckpt", "x", "--regimes", "all"]).regimes == tuple(PHYSICS)
    assert len(PHYSICS) == 11
    assert parse(EvaluationOptions, ["--ckpt", "x", "--regimes", "full,none", "full"]).regimes == ("full", "none")


@pytest.mark.parametrize("module", [run_module, payoff, seeds, export], ids=lambda module: module.__name__)
def test_help_fits_wide_terminal(module, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        module.main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_sequential_test_sets_exit_code(tmp_path, capsys):
    options = ["--games", "20", "--max-games", "60", "--threads", "1", "--quiet", "--out", str(tmp_path)]
    assert main(["--ckpt", "bot:ace", "--opponents", "do_nothing", "--sprt", "elo1=50", *options]) == 0
    result = json.loads((tmp_path / "sprt.json").read_text())
    assert (result["accepted"], result["elo1"], result["player"]) == ("H1", 50.0, "ace")
    assert "ace is stronger (H1 accepted)" in (tmp_path / "sprt.md").read_text()
    assert main(["--ckpt", "bot:do_nothing", "--opponents", "ace", "--sprt", "elo1=50", *options]) == 1
    assert "do_nothing is not shown to be stronger" in capsys.readouterr().err
    assert main(["--ckpt", "bot:ace", "--opponents", "ace", "--sprt", *options]) == 1
    assert "undecided: the games ran out" in capsys.readouterr().err


def test_sequential_test_progress_has_no_end(checkpoints, capsys):
    options = ["--games", "20", "--max-games", "100000", "--threads", "1", "--device", "cpu"]
    assert main(["--ckpt", "bot:ace", "--opponents", "do_nothing", "--sprt", "elo1=50", *options]) == 0
    bar = capsys.readouterr().err.split("\r")[-1]
    assert re.search(r"ace vs do_nothing: LLR \d+\.\d\d, ends at -2\.94 or 2\.94; \d+ of at most 100000 games \[", bar)
    assert "%" not in bar
    assert "<" not in bar  # before the time that is left


def test_evaluation_numbers_earlier_results_and_names_run(make_checkpoint, capsys):
    folder = make_checkpoint().parent
    played = []
    for games in ("4", "2", "2", "4", "2", "6"):
        assert main(["--ckpt", "final.pt", "--opponents", "ace", *QUICK[2:], "--games", games, "--quiet"]) == 0
        latest = json.loads((folder / "eval.json").read_text())
        played.append(latest["games"])
        assert latest["command"].startswith("python eval/run.py --ckpt pupil --opponents ace ")
    assert played == [4, 2, 2, 4, 2, 6]
    kept = {path.name: json.loads(path.read_text())["games"] for path in sorted(folder.glob("eval-*.json"))}
    assert kept == {"eval-0001.json": 4, "eval-0002.json": 2}  # equal results are kept once
    assert "2 games each" in (folder / "eval-0002.md").read_text()
    said = [line for line in capsys.readouterr().err.splitlines() if "earlier" in line]
    assert said == [f"{folder / 'eval.json'}: the earlier results are now in eval-000{n}.json" for n in (1, 2)]


def test_fifo_results_are_replaced_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "eval.json")
    publish_results(tmp_path, "eval", "table", '{"games": 2}')
    assert (tmp_path / "eval.json").read_text().rstrip() == '{"games": 2}'


def test_error_names_file_that_is_not_policy(tmp_path, error_line):
    (tmp_path / "README.md").write_text("# Read me")
    line = error_line(main, ["--ckpt", str(tmp_path / "README.md")])
    assert "README.md: not a policy (.pt, .onnx, .zip); pass one" in line

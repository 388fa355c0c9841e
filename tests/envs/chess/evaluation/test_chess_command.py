"""`eval/run.py` for chess: game selection, files, engines, language models, failures and bad input."""

import asyncio
import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import chess.pgn
import pytest
import yaml

import sparring
from sparring.agents.opponents import players
from sparring.configs import opponents as registry
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.serialization import to_plain
from sparring.envs.chess import ENV_ID
from sparring.envs.chess.browser.session import ChessOpponents, ChessTable, TableRules
from sparring.envs.chess.engines import searchers
from sparring.envs.chess.evaluation.models import MoveRequest
from sparring.envs.chess.interfaces.aec_env import ChessAECEnv
from sparring.eval.run import env_of
from sparring.eval.run import main as run_main
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.opponents import movers
from tests.configs import messages
from tests.envs.chess.engines.uci_programs import write_puppet
from tests.envs.diplomacy.evaluation.language_players import make_run

main = partial(run_main, env="chess")

ROOT = Path(__file__).resolve().parents[4]
MOVERS = "tests.agents.opponents.movers"
QUICK = ("--games", "2", "--plies", "30", "--quiet")


def evaluate(folder, *arguments):
    """Return the results of a command line, written to a folder."""
    assert main([*arguments, *QUICK, "--out", str(folder)]) == 0
    return json.loads((folder / "chess.json").read_text())


def test_bots_play_and_files_are_written(tmp_path):
    files = ("--pgn", str(tmp_path / "games.pgn"), "--replay", str(tmp_path / "game.html"))
    content = evaluate(tmp_path, "--ckpt", "bot:builtin", "--opponents", "random,self", *files)
    random, itself = content["records"]
    assert content["player"] == "builtin (built-in search 1 (material and mobility), depth 2)"
    assert (random["opponent"], itself["opponent"]) == ("random", "self")
    assert random["illegal"]["count"] == 0
    pgn = io.StringIO((tmp_path / "games.pgn").read_text())
    assert sum(1 for _ in iter(lambda: chess.pgn.read_game(pgn), None)) == 4
    assert (tmp_path / "game.html").read_text().count('"positions"') == 4
    assert "| self" in (tmp_path / "chess.md").read_text()
    first = (tmp_path / "chess.json").read_bytes()
    evaluate(tmp_path, "--ckpt", "bot:builtin", "--opponents", "random,self", *files)
    assert (tmp_path / "chess.json").read_bytes() == first


def test_python_objects_play(tmp_path, monkeypatch):
    """A player without legal moves loses every game; the other sees the environment's observations."""
    monkeypatch.setattr(registry, "_registered", {})
    movers.seen.clear()
    content = evaluate(tmp_path, "--ckpt", f"{MOVERS}:First", "--opponents", f"{MOVERS}:nonsense,random")
    lost, _ = content["records"]
    assert (content["player"], lost["name"]) == (f"{MOVERS}:First", f"{MOVERS}:nonsense")
    assert (lost["won"]["games"], lost["endings"]) == (2, {"illegal move": 2})
    assert {key: lost[key] for key in ("player", "opponent", "games", "wins", "draws", "losses", "win_rate")} == {
        "player": f"{MOVERS}:First",
        "opponent": f"{MOVERS}:nonsense",
        "games": 2,
        "wins": 2,
        "draws": 0,
        "losses": 0,
        "win_rate": 1.0,
    }
    env = ChessAECEnv()
    env.reset(options={"fen": movers.seen[0]["fen"]})
    assert movers.seen[0] == env.observe("white")
    found = sparring.evaluate(movers.First, env="chess", opponents=movers.nonsense, games=2)
    assert (found.data["player"], found.data["records"][0]["name"]) == ("First", "nonsense")
    with pytest.raises(InputError, match=r"player number: act returned a int; a move in UCI is a text"):
        sparring.evaluate("bot:random", env="chess", opponents=movers.number, games=2)
    with pytest.raises(InputError, match="opponent no_module:Mine: cannot find the module no_module; install it"):
        sparring.evaluate("bot:random", env="chess", opponents="no_module:Mine", games=2)
    opponents = ChessOpponents()
    assert opponents.answer(f"{MOVERS}:First", MoveRequest(chess.Board(), 0)).move == "a2a3"
    with pytest.raises(InputError, match="unknown opponent 'os:system'"):
        asyncio.run(table_of(tmp_path).begin("os:system", "white"))


def table_of(folder):
    return ChessTable(ChessOpponents(), ("random",), TableRules("white", chess.STARTING_FEN, True, 0, folder))


def test_substitute_engine_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(searchers, "PLACES", ("no-such-program",))
    content = evaluate(tmp_path, "--ckpt", "bot:random", "--opponents", "stockfish:3")
    name = "stockfish:3 (built-in search 1 (material and mobility), depth 2)"
    assert content["records"][0]["name"] == name
    assert f"| {name} " in (tmp_path / "chess.md").read_text()
    assert "is used instead" in capsys.readouterr().err


def test_script_imports_python_chess_despite_folder_named_chess(tmp_path):
    command = [sys.executable, str(ROOT / "eval" / "run.py"), "--env", "chess", "--ckpt", "bot:builtin"]
    command += ["--opponents", "random", *QUICK, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_untrained_model_loses_by_illegal_moves(tmp_path):
    model = toy_folder(tmp_path / "model")
    arguments = ("--ckpt", str(model), "--opponents", "random", "--tokens", "8", "--device", "cpu")
    content = evaluate(tmp_path, *arguments)
    (result,) = content["records"]
    assert (result["lost"]["games"], result["endings"]) == (2, {"illegal move": 2})
    assert (result["illegal"]["share"], result["legal_half_moves"]["mean"]) == (1.0, 0.0)
    content = evaluate(tmp_path, *arguments, "--illegal", "random")
    assert content["records"][0]["illegal"]["share"] == 1.0
    assert "illegal move" not in content["records"][0]["endings"]


def test_adapter_of_run_plays(tmp_path):
    adapter = make_run(tmp_path)
    trained = to_plain(load(["+run=rookworld_grpo", f"model.name={tmp_path / 'model'}"]))
    (adapter.parent / "config.yaml").write_text(yaml.safe_dump(trained))
    arguments = ("--ckpt", str(adapter), "--opponents", "random", "--tokens", "8", "--device", "cpu")
    assert evaluate(tmp_path / "out", *arguments)["records"][0]["illegal"]["answers"] == 2


def test_adapter_of_other_game_is_rejected(tmp_path, capsys, error_line):
    adapter = make_run(tmp_path)
    capsys.readouterr()  # the bar of transformers
    assert run_main(["--env", "chess", "--ckpt", str(adapter), "--opponents", "random"]) == 2
    said = "was trained in sparring/Diplomacy-v0; this command accepts only sparring/Chess-v0"
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    (adapter.parent / "config.yaml").write_text(yaml.safe_dump({"env": {"id": ENV_ID}}))
    line = error_line(run_main, ["--env", "diplomacy", "--ckpt", str(adapter), "--opponents", "random"])
    assert "was trained in sparring/Chess-v0; this command accepts only sparring/Diplomacy-v0" in line


def test_game_follows_run(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    for name, file in (("supervised", "final/config.json"), ("adapter", "final.pt")):
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).touch()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump({"env": {"id": ENV_ID}}))
        assert env_of(["--ckpt", name, "--opponents", "random,stockfish:1"]) == "chess"
    assert env_of(["--ckpt", "bot:stockfish"]) == "chess"
    assert env_of(["--env", "chess", "--help"]) == "chess"


def test_failing_engine_keeps_completed_opponents(tmp_path, capsys):
    program, _ = write_puppet(tmp_path, fatal="fen", times=2)
    arguments = ["--ckpt", "bot:random", "--opponents", "builtin", "stockfish:2", "--engine", program]
    assert main([*arguments, *QUICK, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "failed twice at the position" in error
    assert [line.partition(" ")[2][:17] for line in error.splitlines()[1:]] == ["results are kept "]
    partial = json.loads((tmp_path / "chess.partial.json").read_text())
    assert [result["opponent"] for result in partial["records"]] == ["builtin"]
    assert not (tmp_path / "chess.json").exists()


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_run"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row, "--device", "cpu", "--quiet")

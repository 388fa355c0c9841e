"""An interrupted evaluation keeps finished results, and the same command resumes it."""

import json

import pytest

from sparring.agents.distributed.tasks import KeptResults
from sparring.configs.core.errors import InputError
from sparring.eval import command
from sparring.eval.command import Terminated
from sparring.eval.run import main
from tests.envs.imported.evaluation.saved import save_run

QUICK = ["--threads", "1", "--device", "cpu"]
COMMANDS = {
    "dogfight": "--env dogfight --ckpt bot:ace --opponents brawler,chaser,do_nothing --games 4",
    "sprt": "--env dogfight --ckpt bot:ace --opponents brawler --sprt --games 4 --max-games 12",
    "ladder": "--env dogfight --ladder --opponents ace,brawler,chaser --games 4",
    "air_combat": "--env air_combat --ckpt bot:ace --opponents chaser,evader --games 2",
    "diplomacy": "--env diplomacy --bot dumbbot --opponents random,chaos --games 7 --last-year 1902",
    "language": "--env diplomacy --ckpt tiny --opponents random --games 7 --last-year 1901 --protocol alone",
    "chess": "--env chess --ckpt bot:random --opponents random,builtin --games 4 --plies 30",
    "imported": "--ckpt {policy} --games 20",
}
"""Of every game, a command with several results."""
RESULTS = {"dogfight": 3, "diplomacy": 2, "language": 7, "chess": 8, "imported": 2, "air_combat": 2}


def words_of(game, out, policy):
    return [*COMMANDS[game].format(policy=policy).split(), *QUICK, "--out", str(out)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    if not pytest.importorskip("pyspiel"):
        return None
    return save_run(tmp_path_factory.mktemp("runs") / "run", "openspiel", "kuhn_poker")


def result_of(out):
    (file,) = [path for path in out.glob("*.json") if ".partial" not in path.name]
    content = json.loads(file.read_text())
    content.pop("command")
    return content


@pytest.fixture
def cut(monkeypatch):
    """End the command with `error` after it stored `count` results; `added` are their keys."""
    added, add = [], KeptResults.add

    def arm(count, error):
        def counted(self, key, outcome):
            add(self, key, outcome)
            added.append(key)
            if len(added) == count:
                raise error

        monkeypatch.setattr(KeptResults, "add", counted)
        return added

    return arm


@pytest.mark.parametrize("game", ["dogfight", "language", "chess"])
def test_interrupted_evaluation_resumes(game, tmp_path, capsys, cut, policy):
    assert main(words_of(game, tmp_path / "whole", policy)) in (0, 1)
    whole = result_of(tmp_path / "whole")
    words = words_of(game, tmp_path / "cut", policy)
    added = cut(2, Terminated())
    capsys.readouterr()
    assert main(words) == 143
    said = capsys.readouterr().err
    (kept,) = (tmp_path / "cut").glob("*.cells.jsonl")
    assert f"what is finished is kept in {kept}; to go on: python eval/run.py --" in said
    assert str(tmp_path / "cut") in said.splitlines()[-1]
    before = [json.loads(line)["key"] for line in kept.read_text().split("\n") if line]
    assert before == added
    with kept.open("a") as file:
        file.write('{"key": "cut off by a kill')
    assert main(words) in (0, 1)
    assert not set(added[2:]) & set(before), "a finished result was computed again"
    assert result_of(tmp_path / "cut") == whole
    assert not kept.exists()


@pytest.mark.parametrize(
    ("game", "finished"),
    [
        ("dogfight --regimes none full --opponents brawler do_nothing", [("brawler", "none"), ("do_nothing", "none")]),
        ("diplomacy", [("random", None)]),
    ],
)
def test_interrupted_evaluation_writes_finished_pairs(game, finished, tmp_path, cut, capsys):
    """Of several regimes only complete ones, since the table compares them."""
    name, *more = game.split()
    cut(len(finished) + bool(more), KeyboardInterrupt())
    assert main([*words_of(name, tmp_path, ""), *more]) == 130
    (file,) = tmp_path.glob("*.partial.json")
    records = json.loads(file.read_text())["records"]
    assert [(record["opponent"], record.get("regime")) for record in records] == finished
    assert file.with_suffix(".md").read_text() in capsys.readouterr().out
    assert not [path for path in tmp_path.glob("*.json") if path != file]


@pytest.mark.parametrize("game", ["dogfight", "chess"])
def test_results_with_other_options_are_not_reused(game, tmp_path, cut, policy):
    added = cut(2, KeyboardInterrupt())
    words = words_of(game, tmp_path, policy)
    assert main(words) == 130
    before = added.copy()
    assert main([*words, "--seed", "5"]) == 0
    assert len(added) - len(before) == RESULTS[game]
    assert not set(added[2:]) & set(before)


def test_damaged_result_is_played_again(tmp_path, cut, policy):
    words = words_of("chess", tmp_path / "cut", policy)
    cut(3, InputError("endpoint: it is gone"))
    assert main(words) == 2
    (kept,) = (tmp_path / "cut").glob("*.cells.jsonl")
    lines = [json.loads(line) for line in kept.read_text().split("\n") if line]
    lines[0]["result"]["moves"][-1] = "a1a8"
    lines[1]["result"] = {"moves": 3}
    kept.write_text("\n".join(map(json.dumps, lines)))
    assert main(words) == 0
    assert main(words_of("chess", tmp_path / "whole", policy)) == 0
    assert result_of(tmp_path / "cut") == result_of(tmp_path / "whole")


def test_changed_file_in_model_folder_changes_key(tmp_path):
    (tmp_path / "adapter").mkdir()
    for name in ("config.json", "adapter/weights"):
        (tmp_path / name).write_text("1")
    keys = [command.cell_key({}, [tmp_path])]
    for name in ("config.json", "adapter/weights"):
        (tmp_path / name).write_text("2")
        keys.append(command.cell_key({}, [tmp_path]))
    assert len({*keys}) == 3
    assert command.cell_key({}, [tmp_path]) == keys[-1]


def test_games_against_python_code_are_not_saved(tmp_path, cut):
    added = cut(1000, KeyboardInterrupt())
    for words in (
        "--env chess --ckpt bot:random --opponents tests.agents.opponents.movers:First --plies 10 --games 2",
        "--env diplomacy --bot random --opponents tests.agents.opponents.powers:Holder --games 7 --last-year 1901",
    ):
        assert main([*words.split(), *QUICK, "--out", str(tmp_path)]) == 0
        assert added == []


def test_command_does_not_report_files_of_earlier_one(tmp_path, capsys):
    """A raising Python call leaves its file on record; the next command line is independent."""
    KeptResults(tmp_path / "earlier.cells.jsonl", int).add("key", 1)
    assert command.run_command("eval/run.py", lambda words: main(["--env", "dogfight"]), []) == 2
    assert "earlier.cells.jsonl" not in capsys.readouterr().err

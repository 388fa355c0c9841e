"""Results of several seeds pooled in one table, and incompatible parts rejected."""

import json
from functools import partial

import pytest
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.evaluation.results import record
from sparring.eval.run import main as run_main
from tests.envs.diplomacy.evaluation.test_diplomacy import untrained

main = partial(run_main, env="diplomacy")
QUICK = ["--games", "7", "--threads", "1", "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return results of seeds 1 and 2, and the ends of their games."""
    folder, ends, mp = tmp_path_factory.mktemp("parts"), [], pytest.MonkeyPatch()
    ended = DiplomacyBatch.check

    def check(batch):
        ends.append((batch.owner.clone(), batch.year.clone()))
        ended(batch)

    mp.setattr(DiplomacyBatch, "check", check)
    for seed in ("1", "2"):
        command = ["--bot", "random", "--opponents", "dumbbot", *QUICK, "--last-year", "1906", "--seed", seed]
        assert main([*command, "--out", str(folder / seed)]) == 0
    mp.undo()
    return folder, ends


def test_pooled_figures_match_all_games(parts, tmp_path, printed):
    folder, ends = parts
    files = [str(folder / seed / "diplomacy.json") for seed in ("1", "2")]
    out = printed(main, ["--pool", *files, "--out", str(tmp_path)])
    (pooled,) = json.loads((tmp_path / "pool.json").read_text())["records"]
    owner, year = (torch.cat(values) for values in zip(*ends, strict=True))
    expected = record("random", "dumbbot", owner, year, by_power=True)
    assert (pooled["games"], pooled["seeds"], pooled["year"]) == (14, [1, 2], expected.year)
    for side, values in (("alone", expected.alone), ("together", expected.together)):
        for name in ("solos", "squares", "centres", "survival", "rank", "leads"):
            estimate = getattr(values, name)
            assert pooled[side][name] == {"value": estimate.value, "interval": list(estimate.interval)}
    assert "| random | dumbbot | 14 | 1 2 |" in " ".join(out.split())
    assert "most centres %" in out


def test_incompatible_results_are_rejected(parts, tmp_path, capsys):
    folder, _ = parts
    one, two = (folder / seed / "diplomacy.json" for seed in ("1", "2"))
    changed = json.loads(two.read_text())

    def refusal(*files):
        assert main(["--pool", *map(str, files)]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    def written(name, **content):
        (tmp_path / name).write_text(json.dumps({**changed, **content}))
        return tmp_path / name

    assert "records[0]: its games were played with seed 1, as those of a file before" in refusal(one, one)
    later = written("later.json", last_year=1907)
    assert f"games of {one} end after 1906, those of {later} after 1907" in refusal(one, later)
    assert "kind: must be 'diplomacy', not 'chess'" in refusal(written("other.json", kind="chess"))
    (record,) = changed["records"]
    for ends, words in (
        (["1906 1 2 3"], "records[0].ends[0]: must be a year and seven counts"),
        (["1906 30 5 0 0 0 0 0"], "of at most 34 centres"),
        (record["ends"][:6], "records[0].ends: must be a multiple of 7 games"),
    ):
        assert words in refusal(written("cut.json", records=[{**record, "ends": ends}]))
    assert "'ends' is missing" in refusal(written("old.json", records=[{"one": "a", "six": "b"}]))
    assert "gone.json: No such file or directory; give the JSON" in refusal(tmp_path / "gone.json")
    assert main(["--pool", str(one), "--games", "7"]) == 2
    assert "--games does not go with --pool, which plays nothing" in capsys.readouterr().err


def test_policies_play_on_either_side(tmp_path, capsys, monkeypatch):
    """A search, a bot and a policy against six copies of a policy, and both in a ladder."""
    monkeypatch.chdir(tmp_path)
    untrained(tmp_path / "policy.pt")
    untrained(tmp_path / "other.pt")
    search = "search:positions=100"
    short = [*QUICK, "--last-year", "1901", "--out", str(tmp_path)]
    for player in (["--ckpt", search], ["--bot", "dumbbot"], ["--ckpt", "other.pt"]):
        assert main([*player, "--opponents", "policy.pt", *short]) == 0
        (played,) = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
        assert (played["one"], played["six"], len(played["ends"])) == (player[1], "policy.pt", 7)
    assert main(["--ladder", "--opponents", "random,policy.pt", *short]) == 0
    records = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert [(one["one"], one["six"]) for one in records][2:] == [("policy.pt", "random"), ("policy.pt", "policy.pt")]
    capsys.readouterr()

"""Several runs as one result: reading, rejecting, printing and writing."""

import json

import pytest

from sparring.agents.opponents import players
from sparring.eval.run import main as evaluate
from sparring.eval.seeds import main
from tests.configs import messages

EPISODES = {"env": "CartPole-v1", "episodes": 100, "return": {"mean": 71.5}}
AIR_COMBAT = ["--env", "air_combat", "--ckpt", "bot:ace", "--games", "4", "--threads", "1", "--quiet"]
AIR = {"model": "f16", "gun": "cone", "options": {}}


@pytest.fixture
def make_results(tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)

    def make(name, wins, *, regimes=("none",), opponents=("ace", "brawler"), **changes):
        cells = [(regime, opponent) for regime in regimes for opponent in opponents]
        records = [
            {"regime": r, "opponent": o, "wins": w, "draws": 10 - w, "games": 10}
            for (r, o), w in zip(cells, wins, strict=True)
        ]
        conditions = {"rules": "classic", "bot_rate": "tick", "action_repeat": 10, "deterministic": True}
        content = {"schema_version": 1, "kind": "evaluation", "games": 10, "seed": 0} | conditions
        (tmp_path / name).mkdir()
        (tmp_path / name / "eval.json").write_text(json.dumps(content | {"records": records} | changes))

    return make


def row(text, first):
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_three_seeds_are_summarized(make_results, printed):
    for name, wins in {"a": (10, 4), "b": (10, 6), "c": (10, 8)}.items():
        make_results(name, wins)
    out = printed(main, ["a", "b", "c"])
    words = "sparring/Dogfight-v0, rules=classic, bot_rate=tick, action_repeat=10, deterministic; 10 games per opponent"
    assert out.startswith(f"# 3 runs: a, b, c\n\n{words}, seed 0")
    assert row(out, "ace") == ["ace", "100.0", "100.0", "100.0", "100.0 to 100.0", "100.0", "100.0"]
    assert row(out, "brawler") == ["brawler", "80.0", "60.0", "60.0", "40.0 to 80.0", "60.0", "40.0"]
    overall = row(out, "overall")
    assert overall[1:3] == ["90.0", "80.0"]
    assert (overall[3], *overall[5:]) == ("85.0", "80.0", "40.0")  # Of 4, 6, 8, 10, 10, 10 one is cut at either end.


def test_same_files_give_same_bytes(make_results, tmp_path, capsys):
    for name, wins in {"a": (10, 4), "b": (9, 6)}.items():
        make_results(name, wins)
    written = []
    for _ in range(2):
        assert main(["a", "b", "--out", str(tmp_path / "new")]) == 0
        written.append((tmp_path / "new" / "seeds.json").read_bytes())
    assert written[0] == written[1]
    content = json.loads(written[0])
    assert [line["opponent"] for line in content["rows"]] == ["ace", "brawler", "overall"]
    assert content["rows"][1]["scores"]["mean"] == pytest.approx(0.5)
    assert (tmp_path / "new" / "seeds.md").read_text() in capsys.readouterr().out


def test_two_groups_are_compared(make_results, printed):
    for name, wins in {"a": (10, 9), "b": (10, 8), "x": (10, 3), "y": (10, 8)}.items():
        make_results(name, wins)
    out = printed(main, ["a", "b", "--against", "x", "y"])
    assert "against 2 runs: x, y" in out
    assert row(out, "ace")[-2:] == ["50.0", "50.0 to 50.0"]
    assert row(out, "brawler")[-2] == "87.5"  # Better in 3 of 4 pairings, equal in one.
    assert row(out, "overall")[-2] == "68.8"


def test_several_regimes_get_own_tables_and_summary(make_results, printed):
    for name, wins in {"a": (10, 9, 5, 5), "b": (10, 8, 5, 5)}.items():
        make_results(name, wins, regimes=("none", "full"))
    out = printed(main, ["a", "b"])
    assert [line for line in out.splitlines() if line.startswith("##")] == [
        *("## Physics: none", "## Physics: full", "## Physics: all")
    ]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"rules": "challenge"}, ["b: rules=challenge, but a has classic"]),
        ({"games": 400}, ["b: games=400, but a has 10"]),
        ({"env": "sparring/Dogfight-v1"}, ["b: env=sparring/Dogfight-v1, but a has sparring/Dogfight-v0"]),
        ({"deterministic": False}, ["b: deterministic=False"]),
        ({"regimes": ("full",)}, ["b: regimes differ from a's (missing none; extra full)"]),
        ({"opponents": ("ace", "chaser")}, ["b: opponents differ from a's (missing brawler; extra chaser)"]),
        ({"kind": "air_combat"}, ["b/eval.json: is not the eval.json of an evaluation (KeyError('model'))"]),
        ({"kind": "air_combat", **AIR}, ["b: env=sparring/AirCombat-v1, but a has sparring/Dogfight-v0"]),
        ({"kind": "episodes"}, ["b/eval.json: env is missing; run eval/run.py again"]),
        ({"kind": "episodes", **EPISODES}, ["b: env=CartPole-v1, but a has sparring/Dogfight-v0"]),
        ({"kind": "episodes", **EPISODES, "return": {"mean": "high"}}, ["b/eval.json: return.mean='high': must be"]),
        ({"kind": "ladder"}, ["b/eval.json: is a ladder of version 1", "eval/run.py"]),
        ({"kind": "diplomacy"}, ["b/eval.json: is a diplomacy of version 1, not an evaluation in its current form"]),
        ({"opponents": ("ace", "ace")}, ["b/eval.json: records: several players meet an opponent"]),
        ({"records": []}, ["holds no games"]),
        ({"records": 3}, ["b/eval.json: records=3: must be a valid list"]),
    ],
)
def test_incomparable_results_give_one_line_error(changes, parts, make_results, error_line):
    make_results("a", (10, 4))
    make_results("b", (10, 4), **changes)
    err = error_line(main, ["a", "b"])
    assert [part for part in parts if part not in err] == []


def test_records_with_and_without_regime_are_rejected(make_results, tmp_path, error_line):
    for name in ("a", "b"):
        make_results(name, (10, 4))
    path = tmp_path / "b" / "eval.json"
    path.write_text(path.read_text().replace('"regime": "none", ', "", 1))
    assert "b/eval.json: records: some have a regime and others do not" in error_line(main, ["a", "b"])


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_seeds"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, make_results, check_row):
    make_results("a", (10, 4))
    make_results("b", (10, 4))
    check_row(main, row)


def test_mean_returns_are_summarized_without_opponents(make_results, tmp_path, printed):
    """Of four runs the lowest and highest are trimmed: (90 + 110) / 2. Of the pairs two are better, one equal."""
    for name, mean in {"a": 20.0, "b": 90.0, "c": 110.0, "d": 500.0, "e": 10.0, "f": 90.0}.items():
        make_results(name, (10, 4), kind="episodes", **EPISODES | {"return": {"mean": mean}})
    out = printed(main, ["a", "b", "c", "d", "--out", str(tmp_path / "new")])
    assert "\n\nCartPole-v1, deterministic; 100 episodes, seed 0\n\n" in out
    cells = row(out, "return")
    assert (cells[1], *cells[3:]) == ("100.00", "180.00", "20.00")
    assert "%" not in out.replace("95 %", "")
    (line,) = json.loads((tmp_path / "new" / "seeds.json").read_text())["rows"]
    assert (line["opponent"], line["mean_score"], line["mean_decided"]) == ("return", None, None)
    better = row(printed(main, ["a", "b", "--against", "e", "f"]), "return")
    assert (better[1], better[5], better[7]) == ("55.00", "50.00", "62.5")


@pytest.mark.parametrize(
    "env",
    [
        *("{id: sparring/Dogfight-v0}", "{id: sparring/Dogfight-v1}", "{id: sparring/Diplomacy-v0}"),
        *("{id: sparring/AirCombat-v1}", "{package: openspiel, id: leduc_poker}"),
    ],
)
def test_missing_results_error_names_command(env, make_results, tmp_path, error_line):
    make_results("a", (10, 4))
    (tmp_path / "wolf").mkdir()
    (tmp_path / "wolf" / "config.yaml").write_text(f"env: {env}")
    assert "wolf: no eval.json there or in checkpoints/wolf; make one" in error_line(main, ["a", "wolf"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "air_combat", **AIR}, "sparring/AirCombat-v1, model=f16, gun=cone, action_repeat=10, options={}"),
        ({"kind": "imported", "env": "openspiel:kuhn_poker", "kwargs": {}}, "openspiel:kuhn_poker, kwargs={}"),
        (
            {
                "kind": "chess",
                "schema_version": 2,
                "plies": 200,
                "opening_plies": 4,
                "illegal": "loses",
                "temperature": 0,
            },
            "sparring/Chess-v0, plies=200, opening_plies=4, illegal=loses, temperature=0",
        ),
    ],
)
def test_every_game_is_summarized_without_regimes(changes, words, make_results, tmp_path, printed):
    """Wins of 10 games: 10, 4 and 6, 8; of four scores one is trimmed at either end: (0.6 + 0.8) / 2."""
    for name, wins in {"a": (10, 4), "b": (6, 8)}.items():
        make_results(name, wins, **changes)
        path = tmp_path / name / "eval.json"
        content = json.loads(path.read_text())
        for record in content["records"]:
            del record["regime"]
        path.write_text(json.dumps(content))
    out = printed(main, ["a", "b"])
    assert out.split("\n")[2].startswith(words)
    assert "## Physics" not in out
    assert row(out, "ace")[1] == "90.0"  # wins and half of the draws: (10 + 8) / 20
    overall = row(out, "overall")
    assert (overall[3], overall[5], overall[6]) == ("70.0", "70.0", "40.0")


def test_many_seat_game_has_own_score(make_results, tmp_path, printed, error_line):
    """With seven powers it is the share of squares, not (wins + draws / 2) / games."""
    for name, share in {"a": 0.25, "b": 0.15}.items():
        make_results(name, (1, 2), kind="diplomacy", schema_version=2, last_year=1905)
        path = tmp_path / name / "eval.json"
        content = json.loads(path.read_text())
        for record in content["records"]:
            record |= {"score": share, "decided": 2 * share}
        path.write_text(json.dumps(content))
    assert row(printed(main, ["a", "b"]), "ace")[1:4] == ["20.0", "40.0", "10.0"]
    path.write_text(path.read_text().replace("0.15", "1.5"))
    assert "records: 1.5 is not a share in [0, 1]" in error_line(main, ["a", "b"])


def test_seeds_are_summarized_per_regime(tmp_path, printed):
    for seed in ("0", "1"):
        words = ["--opponents", "turning", "--regimes", "none,low_start", "--seed", "0", "--out", str(tmp_path / seed)]
        assert evaluate([*AIR_COMBAT, *words]) == 0
    out = printed(main, [str(tmp_path / "0" / "eval.json"), str(tmp_path / "1" / "eval.json")])
    assert "## Regime: low_start" in out

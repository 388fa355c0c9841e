"""The league page of a run over time, from files as GRPO and PPO runs write them."""

import json

import numpy as np
import pytest
import yaml

from sparring.agents.language.grpo.matchmaking import Opponents, is_due, league_metrics
from sparring.agents.run.logger import open_logger
from sparring.configs.core.session import LoggerConfig
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER, enter_checkpoint, new_league, record
from sparring.curriculum.ratings import GameResult
from sparring.eval.analysis.reports.league_report import _standings
from sparring.eval.runs import main

STEPS, EVERY = 24, 6


def ppo_metrics(league):
    """The metrics of `agents.ppo.self_play.SelfPlay.metrics` that a page draws."""
    elos = [agent.elo for agent in league.of_kind("checkpoint")] or [1000.0]
    bots = {f"league/{agent.name}/elo": agent.elo for agent in league.of_kind("bot") if agent.games}
    pool = {"league/pool_elo_mean": float(np.mean(elos)), "league/pool_elo_best": max(elos), "league/pool_score": 0.6}
    return {"league/elo": league[CHALLENGER].elo} | bots | pool


def write_league_run(root, name, *, grpo):
    """Write a learner that improves every step, with checkpoints joining every six steps; return the league."""
    rng, (folder, config) = np.random.default_rng(0), (root / name, {"run": name, "trainer": "grpo" if grpo else "ppo"})
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    logger = open_logger(LoggerConfig(), folder, name, config)
    league = new_league(("random", "dumbbot"), "model" if grpo else "")
    for step in range(1, STEPS + 1):
        others = [agent for agent in league.agents if agent != CHALLENGER]
        met = [others[place] for place in rng.integers(len(others), size=4)]
        won = rng.random(4) < 0.3 + step / 40
        games = [GameResult((CHALLENGER, one), (1, 2) if good else (2, 1)) for one, good in zip(met, won, strict=True)]
        games += [GameResult(("random", "dumbbot"), (2, 1))] * (step == 1)
        league = record(league, games)
        drawn = [Opponents((one,), ("baseline" if one in ("random", "dumbbot") else "peer",)) for one in met]
        logger.log(step * 100, league_metrics(league, drawn, games) if grpo else ppo_metrics(league))
        if is_due(step, EVERY):
            league = enter_checkpoint(league, step=step, path=f"step_{step:06d}.pt")
    logger.close()
    LeagueFile(folder).restore(league)
    return league


@pytest.mark.parametrize("grpo", [True, False])
def test_page_shows_ratings_over_time_results_and_new_members(tmp_path, printed, grpo):
    league = write_league_run(tmp_path, "cobra", grpo=grpo)
    page = tmp_path / "league.html"
    report = json.loads(printed(main, ["league", "cobra", "--dir", str(tmp_path), "--html", str(page), "--json"]))
    _, standings, crossed, joined = report["sections"]
    assert [part["title"] for part in report["sections"]][1:] == [
        "Standings", "Results of pairs", "Checkpoints that joined",
    ]  # fmt: skip
    rows = {row[0]: row for row in standings["tables"][0]["rows"]}
    dumbbot = league["dumbbot"]
    middle, half = 1000 + 40 * (dumbbot.belief.mu - 25), 1.96 * 40 * dumbbot.belief.sigma
    assert rows["dumbbot"][3]["value"] == pytest.approx(middle)
    assert rows["dumbbot"][3]["interval"] == pytest.approx([middle - half, middle + half])
    assert (rows[CHALLENGER][6], rows["checkpoint_000006"][2]) == (4 * STEPS, 6)
    table = crossed["tables"][0]
    cells = {(row[0], name): cell for row in table["rows"] for name, cell in zip(table["columns"], row, strict=True)}
    assert (cells["random", "dumbbot"], cells["dumbbot", "random"]) == ("0% of 1", "100% of 1")
    assert [row[0] for row in joined["tables"][0]["rows"]] == [6, 12, 18, 24]
    text = page.read_text()
    assert text.count("<svg") == (4 if grpo else 3)  # without categories of seats
    assert text.count('class="mark"') == 4  # the steps at which a checkpoint joined
    assert "src=" not in text
    assert "http:" not in text
    for name in standings["tables"][0]["columns"][1:]:  # explained above the table
        assert name.removesuffix(", 95 % interval").removeprefix("change of ") in " ".join(standings["text"])
    assert "usually lower than what the final policy scores" in " ".join(crossed["text"])
    assert "A win rate in README or a model card is of a finished policy" in " ".join(crossed["text"])
    assert "@media(max-width:600px)" in text


@pytest.mark.parametrize(("players", "explained"), [(["style_0"], True), (["hawk"], False)])
def test_population_page_explains_styles(players, explained):
    league = record(new_league(("ace",), players=players), [GameResult((CHALLENGER, players[0]), (1, 2))])
    section = _standings(list(league.agents.values()))
    assert players[0] in {row[0] for row in section.tables[0].rows}
    assert ("the learner's lower styles: players that learn on" in " ".join(section.text)) is explained


def test_run_without_league_is_rejected(tmp_path, error_line):
    write_league_run(tmp_path, "cobra", grpo=True)
    (tmp_path / "cobra" / "league.json").unlink()
    words = ["league", "cobra", "--dir", str(tmp_path)]
    assert "league.json: is missing; restore it, or give a run that has a league" in error_line(main, words)
    line = error_line(main, [*words, "--source", "tensorboard"])
    assert "its league is in its folder, which tensorboard lacks; give --source folder" in line

"""Videos of evaluation matches and hyperparameters, read back from the files that a run leaves behind."""

import json
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import EXPERIMENT_TAG, SESSION_START_INFO_TAG
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from sparring.agents.ppo.tasks import dogfight
from sparring.agents.run.logger import VideoThreads
from sparring.agents.trainers import train
from sparring.configs.schema import EvaluationConfig
from sparring.eval.experiments.sources.tensorboard_files import read_folder
from tests.agents.ppo.small_run import ENVS, STEPS, config, metrics, state_of, untimed

EVALUATION = EvaluationConfig(every=1, games=2, check_bot="ace", check_every=3)


def trained(root, **evaluation):
    train(config(root, evaluation=replace(EVALUATION, **evaluation)))
    return root


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("filmed"), video_every=2)


@pytest.fixture(scope="module")
def events(filmed):
    return EventAccumulator(str(filmed / "small")).Reload()


def test_every_nth_evaluation_leaves_a_video_in_tensorboard(events):
    assert events.Tags()["images"] == ["eval/video"]
    (image,) = events.Images("eval/video")
    assert image.step == 2 * STEPS * ENVS, "the second of three evaluations"
    with Image.open(BytesIO(image.encoded_image_string)) as gif:
        assert (gif.format, gif.size) == ("GIF", (360, 240))
        assert (image.width, image.height) == gif.size
        assert gif.is_animated
        assert 20 < gif.n_frames <= 151


def test_a_run_with_videos_is_the_same_run(filmed, tmp_path):
    plain = trained(tmp_path, video_every=0)
    assert state_of(plain) == state_of(filmed)
    assert untimed(metrics(plain)) == untimed(metrics(filmed))
    assert EventAccumulator(str(plain / "small")).Reload().Tags()["images"] == []


def test_hyperparameters_are_those_of_the_run_itself(filmed, events):
    data = [HParamsPluginData.FromString(events.SummaryMetadata(tag).plugin_data.content)
            for tag in (SESSION_START_INFO_TAG, EXPERIMENT_TAG)]  # fmt: skip
    values = data[0].session_start_info.hparams
    assert values["ppo.rollout_steps"].number_value == STEPS
    assert values["env.rules"].string_value == "classic"
    assert values["guard.enabled"].bool_value
    assert json.loads(values["phases"].string_value)[1]["events"][0]["snapshot"] == "before"
    shown = {metric.name.tag for metric in data[1].experiment.metric_infos}
    assert {"rollout/reward", "league/elo"} <= shown
    assert {"rollout/reward", "league/elo"} <= set(events.Tags()["scalars"])
    assert not [path for path in (filmed / "small").iterdir() if path.is_dir() and list(path.glob("events.*"))]


def test_the_projects_own_reader_finds_the_scalars(filmed):
    history = read_folder(filmed / "small")
    assert history.damage == ()
    assert set(history.columns) == {key for row in metrics(filmed) for key in row} - {"env_steps"}


def test_a_drawing_that_fails_is_an_alert(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("no font\nis found")

    monkeypatch.setattr(dogfight, "gif_bytes", fail)
    trained(tmp_path, video_every=3)
    lines = [json.loads(line) for line in (tmp_path / "small" / "events.jsonl").read_text().splitlines()]
    alerts = [line["event"] for line in lines if line["kind"] == "alert"]
    steps = 3 * STEPS * ENVS
    assert alerts == [f"eval/video at {steps} env steps is not drawn (no font is found); training goes on"]


def test_without_other_evaluations_those_of_one_bot_are_filmed(tmp_path):
    root = trained(tmp_path, every=0, check_every=1, video_every=3)
    events = EventAccumulator(str(root / "small")).Reload()
    assert [image.step for image in events.Images("eval/video")] == [3 * STEPS * ENVS]


def test_videos_come_in_order_once_and_can_be_dropped():
    threads = VideoThreads()
    for number in range(3):
        threads.start(number, "video", lambda number=number: bytes([number]))
    assert [video.gif for video in threads.finished(wait=True)] == [b"\x00", b"\x01", b"\x02"]
    assert list(threads.finished(wait=True)) == []
    threads.start(4, "video", bytes)
    threads.discard()
    assert list(threads.finished(wait=True)) == []

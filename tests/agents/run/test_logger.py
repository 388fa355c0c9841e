"""Logging on full disks and after resumes and rollbacks; videos and hyperparameters read back from files."""

import json
import resource
import signal
import sys
import threading
import types
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import EXPERIMENT_TAG, SESSION_START_INFO_TAG
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from sparring.agents.run.log_files import JsonLines, LoggerError
from sparring.agents.run.logger import VideoThreads, open_logger
from sparring.agents.trainers import train
from sparring.configs.core.errors import UnknownNameError
from sparring.configs.core.session import LoggerConfig
from sparring.configs.schema import EvaluationConfig
from sparring.envs.dogfight.training import task as dogfight
from sparring.eval.analysis.sources.wandb_offline import WandBOffline
from tests.agents.ppo.small_run import ENVS, STEPS, config, metrics, state_of, untimed
from tests.eval.analysis.wandb_server import stop_service

ROWS = [(512, {"train/entropy": 1.5, "rollout/win_rate": 0.25}), (1024, {"train/entropy": float("nan")})]


def run_logger(folder, mode="off"):
    logger = open_logger(LoggerConfig(wandb=mode, wandb_project="sparring-test"), folder, "dark-ghost", {"seed": 1})
    for env_steps, row in ROWS:
        logger.log(env_steps, row)
    logger.event("phase selfplay")
    logger.close()


def fake_wandb(monkeypatch, run):
    """Put a stand-in for the package on the import path whose init returns or raises `run`."""
    module = types.ModuleType("wandb")
    module.calls = []

    def init(**options):
        module.calls.append(options)
        if isinstance(run, Exception):
            raise run
        return run

    module.init, module.Settings = init, dict
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


class FakeRun:
    def __init__(self, failing=False):
        self.rows, self.defined, self.finished, self.failing, self.attempts = [], [], False, failing, 0

    def define_metric(self, name, step_metric=None):
        self.defined.append((name, step_metric))

    def log(self, row):
        self.attempts += 1
        if self.failing:
            raise ConnectionError("no route\nto host")
        self.rows.append(row)

    def finish(self):
        self.finished = True


def test_metrics_jsonl_has_sorted_keys_and_null_for_nan(tmp_path):
    run_logger(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text().splitlines() == [
        '{"env_steps": 512, "rollout/win_rate": 0.25, "train/entropy": 1.5}',
        '{"env_steps": 1024, "train/entropy": null}',
    ]
    assert (tmp_path / "events.jsonl").read_text() == '{"env_steps": 1024, "event": "phase selfplay", "kind": "info"}\n'


def test_tensorboard_has_every_scalar_at_its_env_step(tmp_path):
    run_logger(tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"train/entropy", "rollout/win_rate"}
    assert [(event.step, event.value) for event in events.Scalars("rollout/win_rate")] == [(512, 0.25)]
    assert [event.step for event in events.Scalars("train/entropy")] == [512, 1024]


def test_off_never_imports_wandb(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it would raise
    run_logger(tmp_path)


@pytest.mark.parametrize("mode", ["none", "disabled", "False"])
def test_off_aliases_suggest_off(tmp_path, mode):
    """By spelling alone, "none" is closer to "online", which would upload the run."""
    with pytest.raises(UnknownNameError, match=r"choose from off, online, offline; did you mean 'off'\?"):
        run_logger(tmp_path, mode)


@pytest.mark.parametrize("found", [None, types.ModuleType("wandb")])
def test_missing_logger_names_package_to_install(tmp_path, monkeypatch, found):
    """A leftover folder called wandb/ imports as an empty module."""
    monkeypatch.setitem(sys.modules, "wandb", found)
    with pytest.raises(LoggerError, match=r"logger\.wandb=offline needs wandb: `sparring install wandb`"):
        run_logger(tmp_path, "offline")
    assert list(tmp_path.iterdir()) == []


def test_wandb_rows_use_env_steps_as_axis(tmp_path, monkeypatch):
    run = FakeRun()
    module = fake_wandb(monkeypatch, run)
    run_logger(tmp_path, "online")
    (options,) = module.calls
    assert (options["project"], options["name"], options["mode"]) == ("sparring-test", "dark-ghost", "online")
    assert options["config"] == {"seed": 1}
    assert options["tags"] == ()
    assert options["dir"] == str(tmp_path)
    assert ("*", "env_steps") in run.defined
    assert run.rows[0] == {"env_steps": 512, "train/entropy": 1.5, "rollout/win_rate": 0.25}
    assert [row["env_steps"] for row in run.rows] == [512, 1024, 1024]
    assert run.finished


def test_resumed_run_keeps_wandb_run(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    module = fake_wandb(monkeypatch, FakeRun())
    for folder in ("a", "a", "b"):
        run_logger(tmp_path / folder, "online")
    first, again, other = (call["id"] for call in module.calls)
    assert first == again != other
    assert {call["resume"] for call in module.calls} == {"allow"}


def test_failing_logger_start_warns_once_and_training_continues(tmp_path, monkeypatch, capsys):
    fake_wandb(monkeypatch, RuntimeError("no API key\nconfigured"))
    run_logger(tmp_path, "online")
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert "no API key configured" in warnings[0]


def test_lost_connection_warns_once(tmp_path, monkeypatch, capsys):
    run = FakeRun(failing=True)
    fake_wandb(monkeypatch, run)
    run_logger(tmp_path, "online")
    assert run.attempts == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


def animation():
    """Return an animated GIF of three colours."""
    written = BytesIO()
    red, *others = [Image.new("RGB", (8, 8), color) for color in ("red", "green", "blue")]
    red.save(written, format="GIF", save_all=True, append_images=others, duration=100)
    return written.getvalue()


def test_real_wandb_offline_mode_writes_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    options, config = LoggerConfig(wandb="offline", wandb_project="sparring-test"), {"ppo": {"learning_rate": 0.5}}
    logger = open_logger(options, tmp_path, "dark-ghost", config)
    logger.log(512, {"rollout/win_rate": 0.25})
    logger.video(512, "eval/video", animation())
    logger.log(1024, {"rollout/win_rate": 0.5})
    logger.close()
    assert not stop_service()
    (film,) = tmp_path.glob("wandb/offline-run-*/files/media/videos/eval/*.gif")
    assert film.read_bytes() == animation()
    source = WandBOffline(tmp_path)
    (run,) = source.runs()
    assert run.config == config
    history = source.history(run.id)
    assert {name: column.tolist() for name, column in history.columns.items()} == {"rollout/win_rate": [0.25, 0.5]}
    assert history.env_steps.tolist() == [512, 1024]
    assert history.damage == ()
    (record,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"video-file" in record.read_bytes()


def test_rejected_video_warns_once(tmp_path, monkeypatch, capsys):
    fake_wandb(monkeypatch, FakeRun())  # a stand-in without Video
    logger = open_logger(LoggerConfig(wandb="online"), tmp_path, "dark-ghost", {})
    logger.video(512, "eval/video", animation())
    logger.close()
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: Weights & Biases is off for the rest of this run: ")
    assert EventAccumulator(str(tmp_path)).Reload().Images("eval/video")[0].encoded_image_string == animation()


def test_resumed_logger_drops_rows_after_state(tmp_path):
    logger = open_logger(LoggerConfig(), tmp_path, "dark-ghost", {})
    logger.log(512, {"a": 1})
    logger.event("kept", kind="alert")
    state = logger.state_dict()
    logger.log(1024, {"a": 2})
    logger.event("forgotten")
    logger.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"half a li')
    logger = open_logger(LoggerConfig(), tmp_path, "dark-ghost", {}, state)
    assert logger.state_dict() == state
    logger.log(1024, {"a": 3})
    logger.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["env_steps"], row["a"]) for row in rows] == [(512, 1.0), (1024, 3.0)]
    assert [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == ["kept"]
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("a")] == [(512, 1.0), (1024, 3.0)]


@contextmanager
def files_up_to(size):
    """Limit file sizes to `size` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_full_disk_warns_once_and_leaves_complete_lines(tmp_path, capsys):
    lines = JsonLines(tmp_path, {})
    lines.log(1, {"a": 1.0})
    with files_up_to((tmp_path / "metrics.jsonl").stat().st_size + 10):
        lines.log(2, {"a": 2.0})
        lines.log(3, {"a": 3.0})
        assert (tmp_path / "metrics.jsonl").read_text() == '{"a": 1.0, "env_steps": 1}\n'
    warning = "warning: metrics.jsonl cannot be written (No space left on device); training continues\n"
    assert capsys.readouterr().err == warning
    lines.log(4, {"a": 4.0})
    lines.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [1, 4]


@pytest.mark.parametrize("full_from", ["the start", "a row on"])
def test_full_disk_loses_only_current_tensorboard_rows(tmp_path, capfd, full_from):
    """Half of what is written there fits; no thread of its own prints anything, and later rows, texts and videos count.

    EventAccumulator is TensorBoard's own reader.
    """
    threads = threading.active_count()
    logger, alerts = open_logger(LoggerConfig(), tmp_path, "dark-ghost", {"seed": 1}), []
    logger.alert = alerts.append
    before = 0 if full_from == "the start" else 1
    for step in range(before):
        logger.log(step, {"a": step})
    size = max((path.stat().st_size for path in tmp_path.iterdir()), default=0)
    with files_up_to(size + 30):
        for step in (1, 2):
            logger.log(step, {"a": step, "b": step})
            logger.video(step, "film", animation())
    logger.log(3, {"a": 3})
    logger.event("room again")
    logger.video(3, "film", animation())
    logger.close()
    assert [text for text in alerts if "TensorBoard" in text] == [
        "TensorBoard: its file cannot be written (No space left on device); training continues"
    ]
    assert capfd.readouterr().err == ""
    assert threading.active_count() == threads
    events = EventAccumulator(str(tmp_path)).Reload()
    steps = [*range(before), 3]
    assert [(event.step, event.value) for event in events.Scalars("a")] == list(zip(steps, steps, strict=True))
    assert [event.step for event in events.Images("film")] == [3]
    assert {"info/text_summary", SESSION_START_INFO_TAG} <= set(events.summary_metadata)


EVALUATION = EvaluationConfig(every=1, games=2, check_bot="ace", check_every=3)


def trained(root, videos=3, **evaluation):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparring.agents.ppo.evaluation.VIDEO_EVERY", videos)
        train(config(root, evaluation=replace(EVALUATION, **evaluation)))
    return root


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("filmed"), videos=2)


@pytest.fixture(scope="module")
def events(filmed):
    return EventAccumulator(str(filmed / "small")).Reload()


def test_every_nth_evaluation_logs_tensorboard_video(events):
    assert events.Tags()["images"] == ["eval/video"]
    (image,) = events.Images("eval/video")
    assert image.step == 2 * STEPS * ENVS, "the second of three evaluations"
    with Image.open(BytesIO(image.encoded_image_string)) as gif:
        assert (gif.format, gif.size) == ("GIF", (360, 240))
        assert (image.width, image.height) == gif.size
        assert gif.is_animated
        assert 20 < gif.n_frames <= 151


def test_run_with_videos_is_unchanged(filmed, tmp_path):
    plain = trained(tmp_path, videos=99)
    assert state_of(plain) == state_of(filmed)
    assert untimed(metrics(plain)) == untimed(metrics(filmed))
    assert EventAccumulator(str(plain / "small")).Reload().Tags()["images"] == []


def test_hyperparameters_match_run(filmed, events):
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


def test_failed_drawing_is_alert(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("no font\nis found")

    monkeypatch.setattr(dogfight, "gif_bytes", fail)
    trained(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "small" / "events.jsonl").read_text().splitlines()]
    alerts = [line["event"] for line in lines if line["kind"] == "alert"]
    steps = 3 * STEPS * ENVS
    assert alerts == [f"eval/video at {steps} env steps not rendered (no font is found); training continues"]


def test_single_bot_evaluations_are_filmed_without_others(tmp_path):
    root = trained(tmp_path, every=0, check_every=1)
    events = EventAccumulator(str(root / "small")).Reload()
    assert [image.step for image in events.Images("eval/video")] == [3 * STEPS * ENVS]


def test_videos_are_ordered_unique_and_droppable():
    threads = VideoThreads()
    for number in range(3):
        threads.start(number, "video", lambda number=number: bytes([number]))
    assert [video.gif for video in threads.finished(wait=True)] == [b"\x00", b"\x01", b"\x02"]
    assert list(threads.finished(wait=True)) == []
    threads.start(4, "video", bytes)
    threads.discard()
    assert list(threads.finished(wait=True)) == []

"""A Tacview file of the game in the readers of others: what they find beside what was written.

    python -m benchmarks.air_combat.acmi_readers     # pip install pyacmi constantly tacview-duckdb "duckdb<1.5"

Each reader gets the file of one match with missiles and flares, and its places and angles are compared with the state
of the simulator; for pyacmi, which keeps events, also launches and ends.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.report import publish, table
from sparring.configs.core.errors import InputError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder, AirRecording
from sparring.envs.air_combat.rules import CombatOptions
from sparring.envs.air_combat.tacview import FIRST_RELEASE, METRES_PER_DEGREE, acmi_text

ROW = 4
"""Of the batch: a match with launches, flares, a missile that takes one, and a loss."""
NAMES = ("ace, \\the 1st", "dog=fighter")
COLUMNS = ("longitude", "latitude", "altitude", "roll", "pitch", "yaw")
UNITS = np.array([METRES_PER_DEGREE, METRES_PER_DEGREE, 1.0, 1.0, 1.0, 1.0])
READERS = {"pyacmi": "read_pyacmi", "tacview_duckdb": "read_tacview_duckdb"}
Rows = dict[tuple[str, float], list[float]]
"""Columns by object and time."""


def main() -> None:
    missing = [name for name in READERS if find_spec(name) is None]
    if len(missing) == len(READERS):
        raise InputError(f"{' and '.join(missing)} are not installed; run pip install pyacmi constantly tacview-duckdb")
    recording = match()
    written, lines = rows_of(recording), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "match.acmi"
        path.write_text(acmi_text(recording), encoding="utf-8")
        for name in READERS:
            if name not in missing:
                lines.append([name, *differences(globals()[READERS[name]](path), written)])
    publish(table(["reader", "rows", "place, m", "height, m", "angles, deg", "pilot of the first"], lines), None)


def match() -> AirRecording:
    """Return a match of ace and dogfighter in the F-16."""
    options = CombatOptions(missiles=2, flares=12)
    batch = AirCombatBatch(ROW + 1, model="f16", threads=1, seed=1, options=options)
    batch.assign(torch.tensor([[rules.bot_id("ace"), rules.bot_id("evader")]]))
    recorder = AirRecorder(batch, ROW + 1)
    while not recorder.done:
        batch.step(batch.actions)
        recorder(batch)
    batch.close()
    return recorder.recordings(NAMES)[ROW]


def rows_of(recording: AirRecording) -> Rows:
    """Return what the state says, from the vectors and not from the text; a lost aircraft has no row."""
    rows: Rows = {}
    for tick, planes in zip(recording.ticks, recording.planes, strict=True):
        for seat, plane in enumerate(planes):
            if plane["hp"] > 0.0:
                north, east, down = (float(part) for part in plane["pos"])
                nose, up = plane["nose"].astype(float), plane["up"].astype(float)
                angles = (np.arctan2(np.cross(nose, up)[2], -up[2]), -np.arcsin(nose[2]), np.arctan2(nose[1], nose[0]))
                place = [east / METRES_PER_DEGREE, north / METRES_PER_DEGREE, -down]
                rows[str(seat + 1), round(float(tick) * rules.DT, 3)] = [*place, *np.degrees(angles)]
    for index, release in enumerate(recording.releases):
        for tick, (north, east, down, *vel) in zip(release.ticks, release.path.astype(float), strict=True):
            pitch, yaw = np.arctan2(-vel[2], np.hypot(vel[0], vel[1])), np.arctan2(vel[1], vel[0])
            place = [east / METRES_PER_DEGREE, north / METRES_PER_DEGREE, -down]
            time = round(float(tick) * rules.DT, 3)
            rows[f"{FIRST_RELEASE + index:x}", time] = [*place, 0.0, np.degrees(pitch), np.degrees(yaw)]
    return rows


def differences(told: tuple[Rows, str], written: Rows) -> list[str]:
    """Return how many rows were found, the largest differences, and the first pilot's name."""
    rows, pilot = told
    shared = [key for key in written if key in rows]
    gap = np.array([np.subtract(rows[key], written[key]) for key in shared]) * UNITS
    gap[:, 3:] = (gap[:, 3:] + 180.0) % 360.0 - 180.0
    most = np.abs(gap).max(0)
    place, height, angles = most[:2].max(), most[2], most[3:].max()
    return [f"{len(shared)} of {len(written)}", f"{place:.4f}", f"{height:.4f}", f"{angles:.4f}", pilot]


def read_pyacmi(path: Path) -> tuple[Rows, str]:
    from pyacmi.acmi import Acmi

    file = Acmi()
    file.load_acmi(str(path))
    rows: Rows = {}
    for number, one in file.objects.items():
        columns: list[Any] = [one.data[name.capitalize()] for name in COLUMNS]
        for time in columns[0]:
            rows[number, round(time, 3)] = [float(column[time]) for column in columns]
    kinds = Counter(str(one.type) for one in file.objects.values())
    ended = sum(one.removed_at is not None for one in file.objects.values())
    print(f"pyacmi: objects {dict(kinds)}, {ended} of {len(file.objects)} removed", file=sys.stderr)
    return rows, file.objects["1"].pilot()


def read_tacview_duckdb(path: Path) -> tuple[Rows, str]:
    from tacview_duckdb import parse_acmi
    from tacview_duckdb.storage.duckdb_store import DuckDBStore

    # Its index of airports, which it downloads, fails without a network.
    DuckDBStore.create_indexes = lambda _: None
    store = parse_acmi(path, output_dir=path.parent, enrichments=[], async_enrichments=False)
    states = store.query_sql(f"SELECT object_id, timestamp, {', '.join(COLUMNS)} FROM states")
    rows = {(row["object_id"], round(row["timestamp"], 3)): [row[name] for name in COLUMNS] for row in states}
    return rows, store.query_sql("SELECT pilot FROM objects WHERE id = '1'")[0]["pilot"]


if __name__ == "__main__":
    sys.exit(run_script(main))

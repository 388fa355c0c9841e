"""Choice sets of the original bots, read out of their kernels: best orders of units in a given turn."""

import numpy as np
import torch
import warp as wp

from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING
from sparring.envs.diplomacy.board.state import PROVINCES, Games, Tables
from sparring.envs.diplomacy.bots.chance import begin
from sparring.envs.diplomacy.bots.order_text import goal_of
from sparring.envs.diplomacy.bots.seed_choice import VALUE, SeedChoice, keep_best
from sparring.envs.diplomacy.bots.seed_dumbbot_values import SeedNeighbours, SeedValues, evaluate_provinces
from sparring.envs.diplomacy.orders.legal import OrderSink, Scene, movement_orders, retreat_orders, survey
from sparring.envs.diplomacy.orders.order_preferences import ANY

wp.set_module_options({"enable_backward": False, "max_unroll": 1})
TURNS, MOST = (wp.constant(number) for number in (17, 300))


def best_orders(batch, game, power, aim, goal, turns, taken):
    """Return the orders with the best score, a list a turn, and the values float64 [75], for J jobs.

    `game`, `power`, `aim` and `goal` are int [J]; `turns` [J, 17] are the provinces of units in turn, padded with -1,
    and `taken` [J, 17] the orders they then get, whose goals later units find claimed.
    """
    jobs = len(game)
    rows = [torch.from_numpy(np.ascontiguousarray(row, dtype=np.int32)) for row in (game, power, aim, goal)]
    lists = [torch.from_numpy(np.ascontiguousarray(row, dtype=np.int32)) for row in (turns, taken)]
    counts, found = torch.zeros(jobs, TURNS, dtype=torch.int32), torch.zeros(jobs, TURNS * MOST, dtype=torch.int32)
    values = torch.zeros(jobs, 75, dtype=torch.float64)
    arrays = [wp.from_torch(array) for array in (*rows, *lists, counts, found, values)]
    wp.launch(best_kernel, dim=jobs, inputs=[batch._games, batch._tables, batch._near, *arrays], device="cpu")
    rows = found.view(jobs, TURNS, MOST).numpy()
    return [[rows[j, t, :n] for t, n in enumerate(counts[j].tolist())] for j in range(jobs)], values.numpy()


@wp.kernel
def best_kernel(
    games: Games,
    tables: Tables,
    near: SeedNeighbours,
    game_of: wp.array[int],
    power_of_job: wp.array[int],
    aim: wp.array[int],
    goal: wp.array[int],
    turns: wp.array2d[int],
    taken: wp.array2d[int],
    counts: wp.array2d[int],
    found: wp.array2d[int],
    values_found: wp.array2d[wp.float64],
):
    job = wp.tid()
    game = game_of[job]
    state = wp.zeros(shape=(3,), dtype=int)
    provinces = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    value = wp.zeros(shape=(75,), dtype=wp.float64)
    last = wp.zeros(shape=(75,), dtype=wp.float64)
    valued = wp.zeros(shape=(75,), dtype=wp.uint8)
    claimed = wp.zeros(shape=(75,), dtype=wp.uint8)
    listed = wp.zeros(shape=(1082,), dtype=int)
    best = wp.zeros(shape=(3246,), dtype=int)
    sink = OrderSink()
    sink.tally = wp.array(ptr=state.ptr, shape=(3,), dtype=int)
    sink.listed = wp.array(ptr=listed.ptr, shape=(1082,), dtype=int)
    sink.preference = ANY
    scene = Scene()
    scene.province = wp.array(ptr=provinces.ptr, shape=(34,), dtype=int)
    scene.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
    scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
    scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
    scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
    values = SeedValues()
    values.value = wp.array(ptr=value.ptr, shape=(75,), dtype=wp.float64)
    values.last = wp.array(ptr=last.ptr, shape=(75,), dtype=wp.float64)
    values.valued = wp.array(ptr=valued.ptr, shape=(75,), dtype=wp.uint8)
    choice = SeedChoice()
    choice.claimed = wp.array(ptr=claimed.ptr, shape=(75,), dtype=wp.uint8)
    choice.listed = wp.array(ptr=listed.ptr, shape=(1082,), dtype=int)
    choice.best = wp.array(ptr=best.ptr, shape=(3246,), dtype=int)
    choice.aim = aim[job]
    choice.goal = goal[job]
    phase = int(games.phase[game])
    if aim[job] == VALUE:
        evaluate_provinces(games, tables, near, game, power_of_job[job], values)
        for province in range(PROVINCES):
            values_found[job, province] = values.value[province]
    if phase == SPRING or phase == FALL:  # noqa: SIM109
        scene.n = survey(games, tables, game, scene)
    for turn in range(TURNS):
        province = turns[job, turn]
        if province >= 0:
            begin(games, game, 0, province, sink)
            if phase == SPRING or phase == FALL:  # noqa: SIM109
                for unit in range(scene.n):
                    if scene.province[unit] == province:
                        movement_orders(games, tables, game, scene, unit, sink)
            else:
                retreat_orders(games, tables, game, province, sink)
            kept = keep_best(games, tables, game, values, choice, province, sink.tally[0])
            counts[job, turn] = kept
            for number in range(wp.min(kept, MOST)):
                found[job, MOST * turn + number] = choice.best[number]
            order = taken[job, turn]
            if goal_of(tables, province, order) != province:
                choice.claimed[goal_of(tables, province, order)] = wp.uint8(1)

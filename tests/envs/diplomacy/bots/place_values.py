"""DumbBot's place values, read out of its kernels."""

import torch
import warp as wp

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import LOCATIONS, Games, Tables
from sparring.envs.diplomacy.bots.dumbbot_values import Lanes, NodeValues, count_near, evaluate_all, evaluate_nodes

wp.set_module_options({"enable_backward": False, "max_unroll": 1})


def place_values(batch, power):
    """Return float32 [G, 162] of a power: armies, then fleets, by location; 0 where impossible."""
    values = torch.zeros(batch.num_games, 2 * codes.NUM_LOCATIONS, device=batch.device)
    batch._launcher.run(values_kernel, [batch._games, batch._tables, power, wp.from_torch(values)])
    return values


@wp.kernel
def values_kernel(games: Games, tables: Tables, power: int, values: wp.array2d[float], first: int):
    game = first + wp.tid()
    near = wp.zeros(shape=(525,), dtype=wp.uint8)
    present = wp.zeros(shape=(525,), dtype=wp.uint8)
    ranks = wp.zeros(shape=(225,), dtype=int)
    size = wp.zeros(shape=(8,), dtype=float)
    value = wp.zeros(shape=(162,), dtype=float)
    total = wp.zeros(shape=(162,), dtype=Lanes)
    prox = wp.zeros(shape=(324,), dtype=Lanes)
    rivals = wp.zeros(shape=(75,), dtype=int)
    nodes = NodeValues()
    nodes.near = wp.array(ptr=near.ptr, shape=(525,), dtype=wp.uint8)
    nodes.present = wp.array(ptr=present.ptr, shape=(525,), dtype=wp.uint8)
    nodes.ranks = wp.array(ptr=ranks.ptr, shape=(225,), dtype=int)
    nodes.size = wp.array(ptr=size.ptr, shape=(8,), dtype=float)
    nodes.value = wp.array(ptr=value.ptr, shape=(162,), dtype=float)
    nodes.total = wp.array(ptr=total.ptr, shape=(162,), dtype=Lanes)
    nodes.prox = wp.array(ptr=prox.ptr, shape=(324,), dtype=Lanes)
    nodes.rivals = wp.array(ptr=rivals.ptr, shape=(75,), dtype=int)
    count_near(games, tables, game, nodes)
    evaluate_all(games, tables, game, nodes)
    evaluate_nodes(games, tables, game, nodes, power)
    for row in range(2 * LOCATIONS):
        values[game, row] = nodes.value[row]

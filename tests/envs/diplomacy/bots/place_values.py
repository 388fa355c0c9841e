"""The values that DumbBot gives to places, read out of its kernels."""

import torch
import warp as wp

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import LOCATIONS, Games, Tables
from sparring.envs.diplomacy.bots.dumbbot_values import NodeValues, count_near, evaluate_nodes

wp.set_module_options({"enable_backward": False, "max_unroll": 1})


def place_values(batch, power):
    """Float32 [G, 162] of a power: an army at each location, then a fleet at each; 0 where it cannot be."""
    values = torch.zeros(batch.num_games, 2 * codes.NUM_LOCATIONS, device=batch.device)
    batch._launcher.run(values_kernel, [batch._games, batch._tables, power, wp.from_torch(values)])
    return values


@wp.kernel
def values_kernel(games: Games, tables: Tables, power: int, values: wp.array2d[float], first: int):
    game = first + wp.tid()
    near = wp.zeros(shape=(525,), dtype=wp.uint8)
    size = wp.zeros(shape=(8,), dtype=float)
    value = wp.zeros(shape=(162,), dtype=float)
    last = wp.zeros(shape=(162,), dtype=float)
    fresh = wp.zeros(shape=(162,), dtype=float)
    rivals = wp.zeros(shape=(75,), dtype=int)
    nodes = NodeValues()
    nodes.near = wp.array(ptr=near.ptr, shape=(525,), dtype=wp.uint8)
    nodes.size = wp.array(ptr=size.ptr, shape=(8,), dtype=float)
    nodes.value = wp.array(ptr=value.ptr, shape=(162,), dtype=float)
    nodes.last = wp.array(ptr=last.ptr, shape=(162,), dtype=float)
    nodes.fresh = wp.array(ptr=fresh.ptr, shape=(162,), dtype=float)
    nodes.rivals = wp.array(ptr=rivals.ptr, shape=(75,), dtype=int)
    count_near(games, tables, game, nodes)
    evaluate_nodes(games, tables, game, nodes, power)
    for row in range(2 * LOCATIONS):
        values[game, row] = nodes.value[row]

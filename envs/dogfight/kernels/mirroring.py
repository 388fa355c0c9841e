"""The mirror kernel: one thread reads one observation and writes the policy's view of it."""

import warp as wp

wp.set_module_options({"enable_backward": False, "optimization_level": 3})


@wp.kernel
def show_kernel(
    obs: wp.array2d[float],
    rows: wp.array[wp.int64],
    opponent_x: int,
    sign: wp.array[float],
    bearing: wp.array[wp.int64],
    bullet_x: wp.array[wp.int64],
    shown: wp.array2d[float],
    side: wp.array[float],
    first: int,
) -> None:
    """Write row `rows[i]` of `obs` to `shown[i]`, mirrored where the opponent is on the left: `side[i]` -1, else 1.

    `sign` [D] is -1.0 in columns that change sign; `bearing` and `bullet_x` are columns, one of each per bullet.
    """
    i = wp.tid() + first
    row = int(rows[i])
    mirrored = obs[row, opponent_x] < 0.0
    side[i] = wp.where(mirrored, -1.0, 1.0)
    for j in range(shown.shape[1]):
        shown[i, j] = wp.where(mirrored, obs[row, j] * sign[j], obs[row, j])
    if mirrored:
        for k in range(bearing.shape[0]):
            b = obs[row, int(bearing[k])]
            # A bearing b, in units of pi, becomes 1 - b, or -1 - b if negative. A free slot (b = 0 and x = 0) stays 0.
            whole = wp.where(b < 0.0, -1.0, 1.0)
            if b == 0.0 and obs[row, int(bullet_x[k])] <= 0.0:
                whole = 0.0
            shown[i, int(bearing[k])] = whole - b

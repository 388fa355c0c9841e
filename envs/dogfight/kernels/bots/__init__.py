"""The scripted opponents, one file each, as Warp functions of view and memory.

`decide.decide` is the entry: it builds the `View`, applies the altitude guard first and the stall guard last, and
calls the bot. The bots are deterministic and not mirror-symmetric: every altitude bias is added to an angle, so it
turns counter-clockwise, which is nose up flying right and nose down flying left.
"""

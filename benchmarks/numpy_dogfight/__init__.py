"""The dogfight in plain NumPy, written from the rules without Warp: reference for speed and results.

`peer.NumpyDogfight` is the batch; `state.State` its state, which may be set freely; `physics.tick`, `bots.bot_actions`,
`observation.observe` and `reward.reward` are its parts.
"""

"""Whether a resumed run is bit-exact: the machine's fingerprint, a replayed minibatch, and the comparison of both."""

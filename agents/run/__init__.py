"""What every training run has: folder, lock, states, logs, progress, guard, signals."""

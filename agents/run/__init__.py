"""Parts of every training run: folder, lock, states, logs, progress, guard, signals."""

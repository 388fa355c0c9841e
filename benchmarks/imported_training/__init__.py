"""Speed of training on games of other packages, beside Stable-Baselines3: `python -m benchmarks.imported_training`."""

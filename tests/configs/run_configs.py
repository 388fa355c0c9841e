"""The configuration of every run file, composed once in a process: each takes 50 ms. Tests share them."""

from functools import cache

from sparring.configs.load import load, runs


@cache
def run_config(run):
    return load([f"+run={run}"])


PPO = [run for run in runs() if run_config(run).trainer == "ppo"]

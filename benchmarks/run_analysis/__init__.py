"""How well run analysis finds faults in runs: `python -m benchmarks.run_analysis.symptoms`."""

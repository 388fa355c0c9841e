"""Reliability under kills, damage, full disks and hostile files: `python -m benchmarks.torture --help`."""

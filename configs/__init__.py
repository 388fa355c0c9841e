"""Configuration: dataclasses (`schema.py`) are the truth, YAML files hold deltas."""

"""Configuration: dataclasses in `schema.py`; YAML files hold differences."""

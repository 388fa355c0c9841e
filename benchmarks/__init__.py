"""Measurements that print tables: simulators, trainers and language models, each beside a reference."""

"""Evaluation: seat-swapped pairs of matches, tables with confidence intervals, replays, ONNX export."""

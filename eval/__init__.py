"""Measurement: matches in seat-swapped pairs, tables with intervals, replays to watch, export to ONNX."""

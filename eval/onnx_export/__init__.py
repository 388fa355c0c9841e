"""Policies as ONNX models."""

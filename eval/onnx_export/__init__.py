"""Policies as ONNX models, and ONNX models as players."""

"""The calls of `import sparring` that load, evaluate, record, report on, export and play against players."""

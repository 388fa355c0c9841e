"""The calls of `import sparring` that load, evaluate and record players."""

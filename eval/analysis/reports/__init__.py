"""Analysis of runs: rules with evidence, power laws, reports as text, Markdown and HTML, and comparisons."""

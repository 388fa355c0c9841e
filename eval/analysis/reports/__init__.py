"""Reports on runs: rules with evidence, power laws, comparisons, as text, Markdown, HTML and plots."""

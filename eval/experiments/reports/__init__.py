"""Reports: their content, and how it is shown on a terminal, as Markdown, as HTML, and as a picture."""

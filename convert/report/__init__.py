"""One record of a run, many renderings: JSON, Markdown and the terminal's table."""

"""How the rows of the dispatch tables are run: one launch of a kernel, or several."""

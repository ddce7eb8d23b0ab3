"""How Sphinx makes the site: ``sphinx-build -W docs docs/_build``. Notebooks are run as they are read."""

import shutil
import sys
from pathlib import Path

import numba_dml

HERE = Path(__file__).parent
# Sphinx reads below this directory only.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", ignore=shutil.ignore_patterns(".*"))

sys.path.insert(0, str(HERE))
import plots  # noqa: E402

plots.draw(HERE / "performance.md", HERE / "pictures")

project = "numba_dml"
author = copyright = "the developers of numba_dml"
version = release = numba_dml.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_nb"]
exclude_patterns = ["_build", "jupyter_execute"]
html_theme = "furo"
html_title = "numba_dml"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

autosummary_generate = False
autodoc_typehints = "none"  # the docstrings say more
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

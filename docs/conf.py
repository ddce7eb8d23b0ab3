"""How Sphinx makes the site: ``sphinx-build -W docs docs/_build``. Notebooks are run as they are read."""

import os
import shutil
import sys
from pathlib import Path
from urllib.request import urlopen

from docutils import nodes
from sphinx import addnodes

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
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build", "jupyter_execute"]
html_theme = "furo"
html_title = "numba_dml"
html_static_path = ["_static"]
html_css_files = ["site.css"]

default_role = "py:obj"  # names between backticks in docstrings are links


def reachable(url):
    """Tell whether a site's inventory can be read: without a network the site is made all the same."""
    try:
        with urlopen(f"{url}objects.inv", timeout=5):
            return True
    except OSError:
        return False


SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "numba": "https://numba.readthedocs.io/en/stable/",
}
intersphinx_mapping = {name: (url, None) for name, url in SITES.items() if reachable(url)}
intersphinx_timeout = 20

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
os.environ["NUMBA_DML_QUIET"] = "1"  # notebooks show no word of compilations

autosummary_generate = False
autodoc_typehints = "none"  # the docstrings say more
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def notebooks_here(app, name, source):
    """Lead links to notebooks, which are right in the repository, to the copies here."""
    source[0] = source[0].replace("(../notebooks/", "(notebooks/")


def numpy_itself(app, doctree):
    """Lead names such as numpy.take to NumPy: Sphinx would find numba_dml.numpy.take first."""
    for node in doctree.findall(addnodes.pending_xref):
        if node["reftarget"].startswith("numpy."):
            node["py:module"] = node["py:class"] = None


def gallery(app, doctree, page):
    """Fill the front page's gallery with the pictures of the notebooks; each links to its notebook."""
    for place in [node for node in doctree.findall(nodes.container) if "gallery" in node["classes"]]:
        for notebook in sorted(name for name in app.env.found_docs if name.startswith("notebooks/")):
            uri = app.builder.get_relative_uri(page, notebook)
            for picture in list(app.env.get_doctree(notebook).findall(nodes.image)):
                picture["alt"] = app.env.titles[notebook].astext()
                place += nodes.reference("", "", picture, internal=True, refuri=uri)


def setup(app):
    """Connect the functions above to Sphinx's events."""
    app.connect("source-read", notebooks_here)
    app.connect("doctree-read", numpy_itself)
    app.connect("doctree-resolved", gallery)

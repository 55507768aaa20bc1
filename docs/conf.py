"""How Sphinx builds the site; `scripts/docs` runs it. Needs no network."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "scripts"))

import _docs  # noqa: E402 - found only now

_docs.write(HERE / "reference" / "_generated")

project = "hermes-pgmemory"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "reference/_generated"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "hermes-pgmemory"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    # Both of the theme's buttons lead to a forge, and this page names none.
    "top_of_page_buttons": [],
}

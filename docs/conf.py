"""The documentation site: `make docs` builds it. It needs no network and the result loads nothing from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from sphinx.domains.python import PyObject

from fedslim import __version__

for _field in PyObject.doc_field_types:
    if _field.name == "variable":
        _field.label = "Attributes"  # as scikit-learn calls them

project = "fedslim"
author = "the fedslim authors"
copyright = author  # noqa: A001  # Sphinx's name
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "generated",
]
exclude_patterns = ["_build", "results/*"]  # results/ has the paragraphs of results.md
suppress_warnings = ["myst.xref_ambiguous"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r".*")]  # annotations name numpy, scikit-learn and types that are not public

# -- Markdown ----------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_inline"]
myst_heading_anchors = 4

# -- the API -----------------------------------------------------------------------------------------------------------

default_role = "code"  # docstrings write `name` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes as a list, beside the properties that autodoc finds
napoleon_use_rtype = False

# -- the pages ---------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"fedslim {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/fedslim/fedslim/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {
        "color-brand-primary": "#0b6e4f",
        "color-brand-content": "#0b6e4f",
        "color-api-name": "#0b6e4f",
        "color-api-pre-name": "#4d5b57",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc8a1",
        "color-brand-content": "#5cc8a1",
        "color-api-name": "#5cc8a1",
        "color-api-pre-name": "#a3b5af",
    },
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

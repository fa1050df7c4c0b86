"""One schema for all members: what their columns mean, and which items follow.

schema = Schema.read("schema.toml")
site = conform(schema, table)                  # a table in terms of the schema
agreed = agree(schema, [site, other])          # what follows from the rows of all sites
database = site.items(agreed)
"""

from __future__ import annotations

from fedslim.schema.agreeing import Agreed, agree, cut_ranks, keep_categories, round_cuts
from fedslim.schema.conforming import Conformed, conform, conform_file
from fedslim.schema.file import Schema, SchemaRules, encoding_from_dict

__all__ = [
    "Agreed",
    "Conformed",
    "Schema",
    "SchemaRules",
    "agree",
    "conform",
    "conform_file",
    "cut_ranks",
    "encoding_from_dict",
    "keep_categories",
    "round_cuts",
]

"""One schema for all members: what their columns mean, and which items follow."""

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

"""One schema for all members: what their columns mean, and which items follow."""

from fedslim.schema.agreeing import (
    Agreed as Agreed,
    agree as agree,
    cut_ranks as cut_ranks,
    keep_categories as keep_categories,
    round_cuts as round_cuts,
)
from fedslim.schema.conforming import Conformed as Conformed, conform as conform, conform_file as conform_file
from fedslim.schema.file import Schema as Schema, SchemaRules as SchemaRules, encoding_from_dict as encoding_from_dict

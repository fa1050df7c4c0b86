"""Data: the transaction database, and the readers, encoders and generators that build one."""

from __future__ import annotations

from fedslim.data.coerce import as_database, encode, encode_together
from fedslim.data.database import TransactionDatabase
from fedslim.data.encoding import Encoding
from fedslim.data.fimi import write_fimi
from fedslim.data.frames import from_dataframe
from fedslim.data.generators import PLANTED, builtin_database, builtin_members, generate
from fedslim.data.partition import Partition, dirichlet, iid, sized, support_quantity_skew, support_skew
from fedslim.data.readers import data_names, load, read
from fedslim.data.store import cache_folder, get, locate, public_set, public_sets
from fedslim.data.vocabulary import ItemSecret, Vocabulary, labels_for, over, read_labels

__all__ = [
    "PLANTED",
    "Encoding",
    "ItemSecret",
    "Partition",
    "TransactionDatabase",
    "Vocabulary",
    "as_database",
    "builtin_database",
    "builtin_members",
    "cache_folder",
    "data_names",
    "dirichlet",
    "encode",
    "encode_together",
    "from_dataframe",
    "generate",
    "get",
    "iid",
    "labels_for",
    "load",
    "locate",
    "over",
    "public_set",
    "public_sets",
    "read",
    "read_labels",
    "sized",
    "support_quantity_skew",
    "support_skew",
    "write_fimi",
]

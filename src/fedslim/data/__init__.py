"""Data: the transaction database, and the readers, encoders and generators that build one."""

from fedslim.data.coerce import as_database as as_database, encode as encode, encode_together as encode_together
from fedslim.data.database import TransactionDatabase as TransactionDatabase
from fedslim.data.encoding import Encoding as Encoding
from fedslim.data.fimi import write_fimi as write_fimi
from fedslim.data.frames import from_dataframe as from_dataframe
from fedslim.data.generators import (
    PLANTED as PLANTED,
    builtin_database as builtin_database,
    builtin_members as builtin_members,
    generate as generate,
)
from fedslim.data.partition import (
    Partition as Partition,
    dirichlet as dirichlet,
    iid as iid,
    sized as sized,
    support_quantity_skew as support_quantity_skew,
    support_skew as support_skew,
)
from fedslim.data.readers import data_names as data_names, load as load, read as read
from fedslim.data.store import (
    cache_folder as cache_folder,
    get as get,
    locate as locate,
    public_set as public_set,
    public_sets as public_sets,
)
from fedslim.data.vocabulary import (
    ItemSecret as ItemSecret,
    Vocabulary as Vocabulary,
    labels_for as labels_for,
    over as over,
    read_labels as read_labels,
)

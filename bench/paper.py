"""Figures of the FedSLIM paper: its table of ten equally large IID clients, for the sets that we have in full."""

from __future__ import annotations

from dataclasses import dataclass

KILO, MEGA, GIGA = 1e3, 1e6, 1e9
"""The paper does not say which of the two kinds of MB and GB it has; these are the smaller ones, in our disfavour."""


@dataclass(frozen=True)
class Centralised:
    """All data in one place, mined by the C++ SLIM of 2012."""

    L_percent: float
    itemsets: int
    candidates: float


@dataclass(frozen=True)
class Federated:
    """One of the two variants; the last three are against the centralised table."""

    L_percent: float
    itemsets: int
    candidates: int
    rounds: int
    bytes_total: float
    f1: float
    wr50: float
    rho: float


CENTRALISED = {
    "ionosphere": Centralised(49.70, 240, 294 * KILO),
    "chess": Centralised(14.70, 292, 20 * KILO),
    "mushroom": Centralised(18.50, 340, 16 * KILO),
    "pendigits": Centralised(39.40, 1347, 394 * KILO),
    "letter": Centralised(33.40, 1599, 521 * KILO),
    "adult": Centralised(22.80, 1201, 199 * KILO),
    "connect": Centralised(12.30, 1670, 297 * KILO),
}

FEDERATED = {
    "ionosphere": {
        "sa": Federated(50.35, 255, 679, 294, 3.6 * GIGA, 0.818, 0.985, 0.907),
        "so": Federated(50.35, 258, 749, 308, 542.1 * MEGA, 0.813, 0.985, 0.910),
    },
    "chess": {
        "sa": Federated(15.15, 250, 546, 373, 2.22 * GIGA, 0.883, 0.933, 0.978),
        "so": Federated(15.38, 248, 553, 369, 608.3 * MEGA, 0.871, 0.905, 0.976),
    },
    "mushroom": {
        "sa": Federated(18.66, 490, 1352, 718, 12.91 * GIGA, 0.387, 0.674, 0.752),
        "so": Federated(18.79, 462, 1195, 682, 3.29 * GIGA, 0.406, 0.674, 0.724),
    },
    "pendigits": {
        "sa": Federated(45.37, 786, 815, 796, 36.27 * GIGA, 0.353, 0.934, 0.572),
        "so": Federated(43.96, 1359, 2434, 1415, 53.1 * GIGA, 0.379, 0.934, 0.652),
    },
    "letter": {
        "sa": Federated(38.20, 737, 766, 761, 29.74 * GIGA, 0.304, 0.811, 0.622),
        "so": Federated(36.10, 1643, 2833, 1792, 94.23 * GIGA, 0.359, 0.826, 0.750),
    },
    "adult": {
        "sa": Federated(23.95, 831, 895, 863, 33.22 * GIGA, 0.673, 0.949, 0.786),
        "so": Federated(23.80, 1037, 1524, 1095, 19.53 * GIGA, 0.645, 0.949, 0.772),
    },
    "connect": {
        "sa": Federated(14.18, 786, 954, 921, 45.67 * GIGA, 0.442, 0.624, 0.676),
        "so": Federated(13.66, 1501, 1969, 1718, 140.65 * GIGA, 0.476, 0.624, 0.760),
    },
}

"""The figures of the FedSLIM paper (section 5), table by table, with the names that records use.

The paper does not define MB and GB; here they are the smaller ones (powers of 1000), to our disadvantage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Figures = Mapping[str, float]

MEGA, GIGA = 1e6, 1e9
COLUMNS = ("L_percent", "itemsets", "candidates", "rounds", "bytes_total", "f1", "wr50", "rho")


def _row(*values: float) -> Figures:
    return dict(zip(COLUMNS, values, strict=True))


def _in_one_place(*values: float) -> Figures:
    return dict(zip(COLUMNS[:3], values, strict=True))


def _gap(*values: float) -> Figures:
    return dict(zip(("gap", "gap_recovered", "grr", "wr50", "wr100"), values, strict=True))


CENTRALISED: Mapping[str, Figures] = {
    "ionosphere": _in_one_place(49.70, 240, 294e3),
    "chess": _in_one_place(14.70, 292, 20e3),
    "mushroom": _in_one_place(18.50, 340, 16e3),
    "pendigits": _in_one_place(39.40, 1347, 394e3),
    "letter": _in_one_place(33.40, 1599, 521e3),
    "adult": _in_one_place(22.80, 1201, 199e3),
    "connect": _in_one_place(12.30, 1670, 297e3),
    "accidents": _in_one_place(31.10, 2018, 21e3),
}
"""All data in one place, mined by the C++ SLIM of 2012 (first rows of Table 2)."""

IID: Mapping[tuple[str, str], Figures] = {
    ("ionosphere", "sa"): _row(50.35, 255, 679, 294, 3.6 * GIGA, 0.818, 0.985, 0.907),
    ("ionosphere", "so"): _row(50.35, 258, 749, 308, 542.1 * MEGA, 0.813, 0.985, 0.910),
    ("chess", "sa"): _row(15.15, 250, 546, 373, 2.22 * GIGA, 0.883, 0.933, 0.978),
    ("chess", "so"): _row(15.38, 248, 553, 369, 608.3 * MEGA, 0.871, 0.905, 0.976),
    ("mushroom", "sa"): _row(18.66, 490, 1352, 718, 12.91 * GIGA, 0.387, 0.674, 0.752),
    ("mushroom", "so"): _row(18.79, 462, 1195, 682, 3.29 * GIGA, 0.406, 0.674, 0.724),
    ("pendigits", "sa"): _row(45.37, 786, 815, 796, 36.27 * GIGA, 0.353, 0.934, 0.572),
    ("pendigits", "so"): _row(43.96, 1359, 2434, 1415, 53.1 * GIGA, 0.379, 0.934, 0.652),
    ("letter", "sa"): _row(38.20, 737, 766, 761, 29.74 * GIGA, 0.304, 0.811, 0.622),
    ("letter", "so"): _row(36.10, 1643, 2833, 1792, 94.23 * GIGA, 0.359, 0.826, 0.750),
    ("adult", "sa"): _row(23.95, 831, 895, 863, 33.22 * GIGA, 0.673, 0.949, 0.786),
    ("adult", "so"): _row(23.80, 1037, 1524, 1095, 19.53 * GIGA, 0.645, 0.949, 0.772),
    ("connect", "sa"): _row(14.18, 786, 954, 921, 45.67 * GIGA, 0.442, 0.624, 0.676),
    ("connect", "so"): _row(13.66, 1501, 1969, 1718, 140.65 * GIGA, 0.476, 0.624, 0.760),
    ("accidents", "sa"): _row(39.87, 364, 368, 367, 20.52 * GIGA, 0.469, 0.759, 0.661),
    ("accidents", "so"): _row(33.99, 1429, 1489, 1448, 111.34 * GIGA, 0.545, 0.772, 0.807),
}
"""Ten members of equal size, IID, by data and variant (Table 2)."""

SCALABILITY: Mapping[tuple[int, str], Figures] = {
    (2, "sa"): _row(35.77, 849, 877, 861, 21.92 * GIGA, 0.702, 0.792, 0.818),
    (2, "so"): _row(33.62, 1771, 1867, 1794, 45.46 * GIGA, 0.495, 0.792, 0.750),
    (4, "sa"): _row(37.76, 536, 546, 544, 16.9 * GIGA, 0.612, 0.792, 0.724),
    (4, "so"): _row(33.81, 1611, 1699, 1634, 66.43 * GIGA, 0.524, 0.792, 0.765),
    (8, "sa"): _row(38.74, 447, 453, 453, 23.75 * GIGA, 0.557, 0.779, 0.669),
    (8, "so"): _row(34.08, 1449, 1525, 1471, 94.21 * GIGA, 0.559, 0.792, 0.773),
    (16, "sa"): _row(42.98, 238, 241, 240, 16.37 * GIGA, 0.352, 0.759, 0.533),
    (16, "so"): _row(34.56, 1158, 1193, 1174, 97.56 * GIGA, 0.611, 0.772, 0.840),
    (32, "sa"): _row(47.64, 134, 134, 134, 14.31 * GIGA, 0.220, 0.525, 0.502),
    (32, "so"): _row(35.97, 777, 797, 786, 66.42 * GIGA, 0.679, 0.772, 0.852),
    (64, "sa"): _row(53.20, 78, 78, 78, 14.34 * GIGA, 0.130, 0.261, 0.506),
    (64, "so"): _row(37.77, 529, 539, 534, 49.76 * GIGA, 0.590, 0.772, 0.745),
    (128, "sa"): _row(71.54, 16, 16, 16, 4.93 * GIGA, 0.031, 0.020, 0.432),
    (128, "so"): _row(38.75, 445, 451, 449, 62.36 * GIGA, 0.535, 0.759, 0.698),
}
"""Accidents, IID, by the number of members and variant (Table 3)."""

UNEVEN: Mapping[str, Figures] = {
    "sa": _row(41.00, 310, 313, 314, 15.65 * GIGA, 0.437, 0.779, 0.579),
    "so": _row(34.39, 1302, 1361, 1320, 85.04 * GIGA, 0.596, 0.792, 0.794),
}
"""Accidents, ten members of uneven sizes, by variant (Table 5)."""

NONIID: Mapping[tuple[str, int, str], Figures] = {
    ("support-skew", 3, "sa"): _row(40.65, 333, 341, 336, 17.55 * GIGA, 0.394, 0.673, 0.639),
    ("support-skew", 3, "so"): _row(34.49, 1410, 1474, 1424, 104.21 * GIGA, 0.471, 0.651, 0.809),
    ("support-skew", 4, "sa"): _row(39.77, 402, 412, 405, 24.25 * GIGA, 0.438, 0.487, 0.617),
    ("support-skew", 4, "so"): _row(35.01, 1388, 1468, 1400, 100.44 * GIGA, 0.451, 0.471, 0.760),
    ("support-quantity-skew", 3, "sa"): _row(40.53, 334, 338, 336, 17.24 * GIGA, 0.378, 0.616, 0.639),
    ("support-quantity-skew", 3, "so"): _row(34.13, 1496, 1585, 1511, 99.45 * GIGA, 0.455, 0.616, 0.804),
    ("support-quantity-skew", 4, "sa"): _row(41.85, 278, 281, 280, 12.96 * GIGA, 0.333, 0.653, 0.582),
    ("support-quantity-skew", 4, "so"): _row(34.13, 1498, 1576, 1516, 99.38 * GIGA, 0.459, 0.636, 0.796),
}
"""Accidents, ten members, by skew, minimum size of dominant itemsets and variant (Table 7)."""

GAP: Mapping[tuple[str, str], Figures] = {
    ("chess", "sa"): _gap(184, 164, 0.891, 0.933, 0.932),
    ("chess", "so"): _gap(184, 158, 0.859, 0.905, 0.911),
    ("adult", "sa"): _gap(843, 383, 0.454, 0.949, 0.916),
    ("adult", "so"): _gap(843, 421, 0.499, 0.949, 0.916),
    ("accidents", "sa"): _gap(39, 6, 0.154, 0.759, 0.737),
    ("accidents", "so"): _gap(39, 14, 0.359, 0.773, 0.752),
}
"""Ten members of equal size, IID: the discovery gap, by data and variant (Table 8)."""

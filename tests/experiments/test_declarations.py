from __future__ import annotations

import re

import pytest

from fedslim.cli.commands.experiment import Name
from fedslim.errors import ParameterError
from fedslim.experiments.declarations import EXPERIMENTS, STAND_INS, VARIANTS, Cell, Setting, resolve
from fedslim.federated import SCHEMES
from fedslim.mdl.policy import WIDTH


def test_the_command_knows_every_experiment():
    assert [name.value for name in Name] == list(EXPERIMENTS)


def test_every_cell_has_a_file_and_a_record_of_its_own():
    cells = {
        cell
        for experiment in EXPERIMENTS.values()
        for cell in experiment.cells([*experiment.datasets, *STAND_INS], seeds=2)
    }
    assert len({cell.key for cell in cells}) == len(cells)
    assert len({tuple(cell.as_dict().items()) for cell in cells}) == len(cells)
    assert {cell.setting.scheme for cell in cells} == set(SCHEMES)
    assert not any(set(cell.key) & set("/\\: ") for cell in cells)


def test_the_papers_table_is_all_there():
    """Every published figure is assigned to a cell."""
    counted = {
        name: sum(experiment.paper(cell) is not None for cell in experiment.cells(experiment.datasets))
        for name, experiment in EXPERIMENTS.items()
    }
    assert counted == {"iid": 16, "scalability": 14, "uneven": 4, "noniid": 8, "gap": 6, "budget": 0}


def test_stand_ins_stand_beside_accidents():
    (cell,) = EXPERIMENTS["iid"].cells(["accidents_head"], ["so"])
    assert EXPERIMENTS["iid"].paper(cell)["L_percent"] == 33.99


def test_equal_cells_of_two_experiments_are_one():
    one, other = (set(EXPERIMENTS[name].cells(["chess"])) for name in ("iid", "gap"))
    assert one == other
    assert {cell.variant for cell in one} == set(VARIANTS)


def test_only_x_is_also_run_with_our_default_width():
    """The paper's figures stand beside runs of the paper's search."""
    for experiment in EXPERIMENTS.values():
        cells = experiment.cells(experiment.datasets)
        assert all(cell.width == 1 for cell in cells if cell.variant != "x" or experiment.paper(cell) is not None)
        of_x = [cell for cell in cells if cell.variant == "x"]
        assert sum(cell.width == 1 for cell in of_x) == len(experiment.settings) * len(experiment.datasets)
    widths = {cell.width for cell in EXPERIMENTS["iid"].cells(["chess"], ["x"])}
    assert widths == {1, WIDTH}


def test_the_command_of_a_cell():
    cell = Cell("accidents_head", Setting("support-skew", 10, 4), 2, "sa")
    assert cell.command == (
        "fedslim simulate accidents_head --variant sa --members 10 --partition support-skew --min-dominant 4 --seed 2"
    )
    for width in (1, 8):
        cell = Cell("chess", Setting(), 0, "x", width)
        assert cell.command == f"fedslim simulate chess --variant x --members 10 --width {width} --seed 0"


def test_data_that_are_not_at_hand_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSLIM_DATA", str(tmp_path))
    monkeypatch.setenv("FEDSLIM_CACHE", str(tmp_path / "cache"))
    resolved = resolve(["chess", "encounters", "accidents", "wide-sparse:100"])
    assert resolved.names == ("encounters", STAND_INS[1], "wide-sparse:100")
    (remark,) = resolved.remarks
    assert remark.startswith("chess is left out")
    shown = resolve(["chess", "accidents"], kept={"chess", STAND_INS[0]})
    assert (shown.names, shown.remarks) == (("chess", *STAND_INS), ())


def test_data_that_nobody_knows_are_refused():
    for name in ("chezz", "accidents-like:../../evil", "accidents-like:", "encounters:5"):
        with pytest.raises(ParameterError, match=re.escape(repr(name))):
            resolve([name])


def test_what_is_named_twice_is_run_once():
    assert resolve(["encounters", "encounters", "wide-sparse:9", "wide-sparse:9"]).names == (
        "encounters",
        "wide-sparse:9",
    )


@pytest.mark.parametrize("name", ["scalability", "uneven", "noniid"])
def test_figures_of_accidents_stand_beside_no_other_data(name):
    experiment = EXPERIMENTS[name]
    assert all(experiment.paper(cell) is None for cell in experiment.cells(["chess", "encounters"]))
    assert any(experiment.paper(cell) is not None for cell in experiment.cells([STAND_INS[1]]))

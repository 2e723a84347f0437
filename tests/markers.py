"""Which tests are slow and which need a browser, in one place.

`make check` leaves both out. A test is listed here, or marked in its file, when it takes more than about two
seconds on two cores (``pytest tests/FOLDER --durations=20`` tells).
"""

from __future__ import annotations

import pytest

SLOW: frozenset[str] = frozenset({
    "execution/test_jobs.py",
    "execution/test_executor.py::test_benchmark_measures_plan_parts_and_baselines",
    "execution/test_measure.py::test_a_job_that_takes_too_long_is_ended",
    "execution/test_measure.py::test_a_profile_adds_up_and_feeds_optimal",
    "execution/test_measure.py::test_backend_cases_pass_split",
    "execution/test_preload.py::test_when_it_dies_a_job_answers",
    "exports/test_dot_pack.py",
    "exports/test_interchange.py::test_check_import_and_watch_on_the_command_line",
    "exports/test_interchange.py::test_exports_do_not_depend_on_the_order_of_sets",
    "exports/test_interchange.py::test_onnx_runtime_accepts_assignment_by_names",
    "exports/test_interchange.py::test_the_example_ci_job_fails_when_subgraphs_or_bytes_grow",
    "exports/test_interchange.py::test_the_graph_of_subgraphs_is_drawn",
    "graph/test_shape_folding.py::test_a_hundred_thousand_ops_behind_an_open_shape_load_in_time",
    "web/test_shutdown.py",
})
"""``FOLDER/FILE.py`` or ``FOLDER/FILE.py::TEST``, without the brackets of parametrised tests."""

LARGE_MODELS = ("chain_20k", "wide_5k")
"""A test that is parametrised with one of these models is slow for it, and for it only."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the list, and those that use the fixture `browser`."""
    for item in items:
        name, _, parameters = item.nodeid.removeprefix("tests/").partition("[")
        if name in SLOW or name.partition("::")[0] in SLOW or any(model in parameters for model in LARGE_MODELS):
            item.add_marker(pytest.mark.slow)
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)

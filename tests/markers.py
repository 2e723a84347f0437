"""Which tests are slow, which need a browser, and which only `make test-all` runs, in one place.

`make check` runs what has none of these marks; `make test` all but ``full``, within six minutes on two cores; `make test-all`
what is ``full``. A test is listed here, or marked in its file. Slow is what takes more than about two seconds on two cores
(see ``pytest tests/FOLDER --durations=20``).
"""

from __future__ import annotations

import pytest

SLOW: frozenset[str] = frozenset(
    {
        "execution/test_adapter_kit.py::test_a_runtime_that_keeps_the_protocol_passes",
        "execution/test_adapter_kit.py::test_what_a_runtime_breaks_is_named",
        "execution/test_fixed_run.py::test_results_are_right_in_every_run_of_a_plan_and_of_its_clones",
        "execution/test_executor.py::test_a_benchmark_measures_subgraphs_transfers_and_baselines",
        "execution/test_executor.py::test_a_plan_of_one_subgraph_shares_the_measurement_of_its_baseline",
        "execution/test_executor.py::test_changes_to_an_input_array_between_runs_take_effect",
        "execution/test_executor.py::test_real_networks_split_over_three_runtimes_compute_the_same",
        "execution/test_executor.py::test_results_stay_valid_after_the_next_run",
        "execution/test_fixed_run.py::test_sums_across_cuts_are_correct_in_repeated_runs",
        "execution/test_jobs.py",
        "execution/test_machine_faults.py",
        "execution/test_machines.py",
        "execution/test_measure.py",
        "execution/test_memory.py",
        "execution/test_preload.py",
        "exports/test_dot_pack.py",
        "exports/test_interchange.py::test_exports_do_not_depend_on_the_order_of_sets",
        "exports/test_interchange.py::test_results_of_query_model_are_imported_without_noise",
        "exports/test_interchange.py::test_the_graph_of_subgraphs_is_rendered",
        "exports/test_interchange.py::test_the_standalone_page_opens_from_disk",
        "exports/test_onnxruntime_export.py::test_onnx_runtime_accepts_assignment_by_names",
        "graph/test_layers.py::test_a_long_list_grouped_in_runs_is_still_one_list",
        "graph/test_nested.py::test_bends_are_in_the_common_boxes_of_both_ends",
        "graph/test_nested.py::test_boxes_contain_only_their_own_nodes",
        "graph/test_scopes.py::test_the_number_of_nodes_shown_is_bounded",
        "graph/test_shape_folding.py::test_a_hundred_thousand_ops_after_an_unknown_shape_load_quickly",
        "imports/test_imported_profiles.py::test_the_page_takes_a_profile_and_figures_follow_it",
        "placement/test_neighbourhood.py::test_the_search_is_repeatable_improves_and_ends_when_told",
        "placement/test_subgraphs.py::test_connected_makes_the_same_subgraphs_as_openvino",
        "runtimes/test_adding_a_runtime.py::test_an_added_runtime_is_listed_and_a_failing_package_has_a_reason",
        "runtimes/test_adding_a_runtime.py::test_an_added_runtime_is_queried_run_profiled_and_benchmarked",
        "runtimes/test_asking.py::test_crashes_hangs_failures_and_wrong_values_are_reasons",
        "runtimes/test_webgpu.py",
        "test_bombs.py",
        "test_check_and_watch.py::test_check_import_and_watch_on_the_command_line",
        "test_check_and_watch.py::test_the_example_ci_job_fails_when_subgraphs_or_bytes_grow",
        "test_cli.py::test_devices",
        "test_cli.py::test_partition_why_run_bench_export",
        "test_cli.py::test_two_plans_in_one_benchmark",
        "test_cli.py::test_usage_errors_have_status_two",
        "test_faults.py::test_damaged_files_are_messages_on_the_command_line",
        "test_faults.py::test_finished_jobs_leave_no_thread",
        "test_one_definition.py",
        "web/test_routes.py",
        "web/test_security.py::test_the_page_opens_with_the_printed_address_only",
        "web/test_shutdown.py",
        "web/test_edits.py",
        "web/test_uploads.py",
        "workspace/test_database.py::test_threads_of_one_server_do_not_tell_each_other_to_wait",
    }
)
"""``FOLDER/FILE.py`` or ``FOLDER/FILE.py::TEST``, without the brackets of parametrised tests."""

FULL: frozenset[str] = frozenset(
    {
        "browser",
        "execution/test_adapter_kit.py::test_a_runtime_that_keeps_the_protocol_passes",
        "execution/test_jobs.py::test_a_job_restarts_when_the_cancellation_of_another_loses_its_result",
        "execution/test_jobs.py::test_jobs_on_a_scheduler_can_be_cancelled_and_are_forgotten",
        "execution/test_machine_faults.py",
        "execution/test_machines.py::test_predictions_hold_over_a_shaped_wire",
        "execution/test_measure.py::test_a_profile_adds_up_and_feeds_optimal",
        "execution/test_measure.py::test_backend_cases_pass_split",
        "execution/test_measure.py::test_ops_that_the_table_excluded_have_no_figure_and_no_figure_is_lost",
        "execution/test_preload.py",
        "exports/test_dot_pack.py",
        "exports/test_kit.py::test_a_kit_measures_with_numpy_and_one_runtime_and_its_result_makes_predictions",
        "graph/test_shape_folding.py::test_a_hundred_thousand_ops_after_an_unknown_shape_load_quickly",
        "packaging/test_container.py",
        "packaging/test_device_farm.py",
        "packaging/test_docs.py",
        "packaging/test_trained_models.py",
        "packaging/test_wheel.py",
        "runtimes/test_adapter_page.py",
        "runtimes/test_adding_a_runtime.py",
        "runtimes/test_webgpu.py",
        "test_check_and_watch.py::test_the_example_ci_job_fails_when_subgraphs_or_bytes_grow",
        "test_files.py::test_what_is_not_a_regular_file_is_written_to_in_place_or_refused",
        "test_startup.py::test_the_page_s_server_asks_the_network_for_nothing",
        "test_terminal.py::test_no_name_of_a_model_controls_the_terminal",
        "web/test_early_end.py",
        "web/test_measurements.py::test_a_measurement_is_of_the_present_plan_by_whatever_steps_one_comes_to_it",
        "web/test_routes.py",
        "web/test_shutdown.py",
    }
)
"""What matters less often than on each change: packages, matrices of faults and signals, most stories of the page.

Entries are like those of ``SLOW``, or whole folders.
"""

NOT_FULL: frozenset[str] = frozenset(
    {
        "browser/test_commands.py::test_a_burst_of_strokes_loses_none",
        "browser/test_connection.py::test_a_killed_server_is_said_and_strokes_wait_for_it",
        "browser/test_connection.py::test_every_tab_sees_what_another_one_did",
        "browser/test_controls.py::test_excluded_ops_are_typed_and_taken_away",
        "browser/test_page.py::test_bad_input_is_a_message",
        "browser/test_page.py::test_blocks_open_and_close_and_are_painted_in_every_layer",
        "browser/test_page.py::test_find_by_name_tensor_and_type",
        "browser/test_page.py::test_layouts_are_kept_compared_and_used_and_hints_applied",
        "browser/test_page.py::test_start_page_examples_sizes_and_upload",
        "browser/test_page.py::test_the_main_job",
        "browser/test_page_tools.py::test_affinities_of_other_tools_are_imported_with_what_was_left_out",
        "browser/test_page_tools.py::test_no_barriers_that_axe_can_find",
        "browser/test_page_tools.py::test_rules_are_added_ordered_counted_loaded_and_removed",
        "browser/test_story.py::test_a_fallback_becomes_a_rule",
        "browser/test_story.py::test_devices_are_edited_in_the_page_and_saved",
        "web/test_early_end.py::test_a_port_in_use_is_a_message_only",
    }
)
"""Tests of those files and folders that `make test` runs all the same."""

LARGE_MODELS = ("chain_20k", "wide_5k")
"""A test that is parametrised with one of these models is slow and full for it, and for it only."""


LONG_FILES = (
    "browser/test_page_tools.py",
    "browser/test_page.py",
    "test_bombs.py",
    "browser/test_connection.py",
    "browser/test_story.py",
    "execution/test_machine_faults.py",
    "execution/test_measure.py",
)
"""Files of a minute or more, which come first: at the end one process would run the last of them while the others wait."""


def _is_listed(name: str, entries: frozenset[str]) -> bool:
    """Whether a test, its file or its folder is in a list."""
    file = name.partition("::")[0]
    return bool({name, file, file.partition("/")[0]} & entries)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the lists, and every test of the folder `browser`; the long files first."""
    rank = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(
        key=lambda item: rank.get(item.nodeid.removeprefix("tests/").partition("::")[0], len(rank))
    )
    for item in items:
        name, _, parameters = item.nodeid.removeprefix("tests/").partition("[")
        is_large = any(model in parameters for model in LARGE_MODELS)
        if is_large or _is_listed(name, SLOW):
            item.add_marker(pytest.mark.slow)
        if is_large or (_is_listed(name, FULL) and name not in NOT_FULL):
            item.add_marker(pytest.mark.full)
        if name.startswith("browser/") or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)

"""Which tests are slow, which need a browser, and which only `make test-all` runs, in one place.

`make check` runs what has none of these marks; `make test` all but ``full``, within six minutes on two cores; `make test-all`
what is ``full``. A test is listed here, or marked in its file. Slow is what takes more than 0.12 seconds, all its cases
together, so that `make check` ends within a minute.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().split())
"""``FOLDER/FILE.py`` or ``FOLDER/FILE.py::TEST``, without the brackets of parametrised tests.

Written by ``python tests/markers.py junit.xml`` from the times of a run (``pytest --junitxml junit.xml``)."""

FULL: frozenset[str] = frozenset(
    {
        "browser",
        "devices/test_condition_words.py::test_no_part_that_holds_is_said_to_be_lacking",
        "devices/test_device_properties.py::test_the_command_line_refuses_a_stranger_s_plan_and_table_unless_they_are_trusted",
        "devices/test_table_text.py::test_what_is_written_is_what_was_asked_for",
        "execution/test_accuracy.py::test_values_come_from_a_file_or_a_folder",
        "execution/test_adapter_kit.py::test_a_runtime_that_keeps_the_protocol_passes",
        "execution/test_adapter_kit.py::test_what_a_runtime_breaks_is_named",
        "execution/test_correction.py::test_a_run_corrects_what_is_predicted_for_it",
        "execution/test_correction.py::test_a_run_on_a_busy_or_changed_machine_corrects_nothing",
        "execution/test_executor.py::test_a_slow_baseline_does_not_make_a_short_benchmark_long",
        "execution/test_executor.py::test_changes_to_an_input_array_between_runs_take_effect",
        "execution/test_executor.py::test_constants_that_are_pinned_run_whatever_they_read",
        "execution/test_fixed_run.py::test_results_are_right_in_every_run_of_a_plan_and_of_its_clones",
        "execution/test_generation.py::test_a_context_says_what_the_state_takes_and_when_it_is_full",
        "execution/test_generation.py::test_every_cut_generates_what_the_whole_model_computes",
        "execution/test_generation.py::test_the_command_line_measures_tokens",
        "execution/test_generation.py::test_the_folder_for_genai_gives_the_same_tokens",
        "execution/test_invented_inputs.py::test_onnx_runtime_accepts_what_is_invented",
        "execution/test_jobs.py::test_a_job_restarts_when_the_cancellation_of_another_loses_its_result",
        "execution/test_jobs.py::test_a_worker_remains_after_several_cancellations",
        "execution/test_jobs.py::test_jobs_on_a_scheduler_can_be_cancelled_and_are_forgotten",
        "execution/test_jobs.py::test_the_error_names_a_lost_scheduler_and_a_restarted_one_is_used",
        "execution/test_jobs.py::test_two_measurements_take_turns_and_one_that_waits_can_be_cancelled",
        "execution/test_learning.py::test_the_command_line_tells_what_it_learned_and_reads_the_plan_again",
        "execution/test_machine_faults.py",
        "execution/test_machines.py::test_devices_of_machines_are_listed_with_what_they_report",
        "execution/test_machines.py::test_predictions_hold_over_a_shaped_wire",
        "execution/test_machines.py::test_profiles_are_measured_there_and_links_between_all",
        "execution/test_measure.py::test_a_difference_is_traced_to_the_subgraph_that_causes_it",
        "execution/test_measure.py::test_a_profile_adds_up_and_feeds_optimal",
        "execution/test_measure.py::test_a_tuned_plan_is_adopted_without_the_search_that_found_it",
        "execution/test_measure.py::test_backend_cases_pass_split",
        "execution/test_measure.py::test_ops_that_openvino_decomposes_keep_their_time",
        "execution/test_measure.py::test_ops_that_the_table_excluded_have_no_figure_and_no_figure_is_lost",
        "execution/test_measure.py::test_tuning_returns_the_fastest_plan_with_every_pin",
        "execution/test_memory.py::test_a_plan_takes_at_least_what_it_needs_and_more_with_more_weights",
        "execution/test_memory.py::test_the_weights_of_a_compiled_model_are_in_memory_once",
        "execution/test_preload.py",
        "execution/test_split_costs.py::test_factor_and_overhead_are_found_where_plans_are_many",
        "execution/test_split_costs.py::test_profiles_tell_what_a_split_costs",
        "exports/test_dot_pack.py",
        "exports/test_interchange.py::test_exports_do_not_depend_on_the_order_of_sets",
        "exports/test_interchange.py::test_the_graph_of_subgraphs_is_rendered",
        "exports/test_kit.py::test_a_kit_measures_with_numpy_and_one_runtime_and_its_result_makes_predictions",
        "exports/test_kit.py::test_a_kit_that_was_killed_goes_on_where_it_was",
        "exports/test_kit.py::test_the_commands_write_a_kit_and_import_its_result",
        "exports/test_kept_off.py::test_a_range_of_operators_is_written_where_it_says_the_same",
        "exports/test_kept_off.py::test_operators_of_tensorflow_lite_are_numbered_as_in_the_file",
        "exports/test_measurement.py::test_devices_of_one_name_with_other_properties_are_told_apart",
        "exports/test_odd_models.py::test_weights_in_branches_and_constants",
        "exports/test_reproduction.py::test_the_command_line",
        "exports/test_unwritable.py::test_commands_on_a_full_disk",
        "graph/test_layers.py::test_an_exported_llama_opens_with_its_32_layers",
        "graph/test_layers.py::test_exported_models_open_at_their_layers",
        "graph/test_model_diff.py::test_a_model_is_matched_with_itself_by_name_and_after_renaming_by_structure",
        "graph/test_model_diff.py::test_insertions_and_removals_are_found_exactly",
        "graph/test_proposed_sizes.py::test_a_model_that_never_ends_is_given_sizes_all_the_same",
        "graph/test_proposed_sizes.py::test_with_proposed_sizes_every_bundled_model_can_be_planned",
        "graph/test_shape_folding.py::test_a_hundred_thousand_ops_after_an_unknown_shape_load_quickly",
        "graph/test_shape_folding.py::test_exported_models_with_bound_sizes_have_no_unknown_shapes",
        "imports/test_placements.py::test_the_command_line_takes_a_profile_as_pins_where_that_is_asked_for",
        "imports/test_spreadsheets.py::test_the_exported_table_of_ops_comes_back_as_pins_and_never_as_a_profile",
        "packaging/test_container.py",
        "packaging/test_device_farm.py",
        "packaging/test_docs.py",
        "packaging/test_trained_models.py",
        "packaging/test_wheel.py",
        "placement/test_energy.py::test_a_limit_of_latency_costs_joules_step_by_step",
        "placement/test_energy.py::test_what_is_not_enumerated_keeps_the_limit_and_the_bound_holds",
        "placement/test_pipeline.py::test_stages_fit_where_a_device_without_a_limit_can_take_the_rest",
        "placement/test_policies.py::test_optimal_is_never_worse_than_priority_and_within_its_bound",
        "runtimes/test_adapter_page.py",
        "runtimes/test_adding_a_runtime.py",
        "runtimes/test_asking.py::test_a_device_that_looks_at_neighbours_is_asked_about_the_whole_model",
        "runtimes/test_asking.py::test_a_whole_model_that_a_device_refuses_or_hangs_on_is_the_reason_for_all_its_ops",
        "runtimes/test_asking.py::test_crashes_hangs_failures_and_wrong_values_are_reasons",
        "runtimes/test_custom_ops.py::test_a_library_of_the_command_line_is_kept_in_the_plan_and_needs_trust_later",
        "runtimes/test_language_models.py::test_a_decoder_of_4_bits_computes_the_same_when_it_is_split",
        "runtimes/test_openvino_ir.py::test_a_decoder_with_its_cache_inside_is_split_and_generates",
        "runtimes/test_openvino_ir.py::test_an_ir_says_of_a_network_what_its_onnx_says",
        "runtimes/test_openvino_ir.py::test_every_cut_of_an_ir_computes_what_openvino_does",
        "runtimes/test_openvino_ir.py::test_parts_of_an_ir_run_without_the_editor",
        "runtimes/test_openvino_ir.py::test_profiles_say_the_time_of_each_layer",
        "runtimes/test_openvino_ir.py::test_tflite_opens_by_way_of_openvino_and_computes_the_same",
        "runtimes/test_openvino_ir.py::test_the_export_keeps_the_ir_and_its_script_sets_the_affinities",
        "runtimes/test_true_trials.py::test_a_normalisation_is_allowed_where_it_is_right_on_small_values",
        "runtimes/test_true_trials.py::test_what_is_allowed_is_right",
        "runtimes/test_webgpu.py",
        "test_advice.py::test_the_command_line",
        "test_audit.py::test_the_command_line_has_stable_statuses",
        "test_bombs.py::test_a_bomb_ends_with_an_error_in_the_page_and_the_next_model_opens",
        "test_bombs.py::test_after_a_cancelled_opening_in_native_code_the_next_model_opens",
        "test_bombs.py::test_nothing_is_left_of_a_command_that_is_killed",
        "test_bombs.py::test_the_message_says_which_limit_and_how_to_raise_it",
        "test_check_and_watch.py::test_a_plan_with_damaged_affinities_is_refused",
        "test_check_and_watch.py::test_like_keeps_the_decisions_of_a_plan",
        "test_check_and_watch.py::test_the_example_ci_job_fails_when_subgraphs_or_bytes_grow",
        "test_check_and_watch.py::test_the_hook_runs_the_check",
        "test_check_and_watch.py::test_the_steps_of_the_action_run",
        "test_cli.py::test_bad_input_is_one_line_and_status_one",
        "test_cli.py::test_every_command_that_prints_a_result_prints_it_as_json",
        "test_cli.py::test_partition_says_joules_where_watts_are_stated_and_keeps_a_limit_of_latency",
        "test_cli.py::test_two_plans_in_one_benchmark",
        "test_cli.py::test_where_nothing_fits_no_policy_is_recommended_and_sizes_without_a_plan_end_with_status_one",
        "test_files.py::test_a_folder_that_cannot_be_written_to_is_said",
        "test_files.py::test_standard_output_may_be_named_as_a_file",
        "test_files.py::test_what_is_not_a_regular_file_is_written_to_in_place_or_refused",
        "test_interrupting.py::test_a_command_that_python_ends_is_not_killed",
        "test_interrupting.py::test_ctrl_c_ends_a_run_in_a_native_loop",
        "test_names_of_other_bytes.py::test_the_command_line_runs_and_measures_such_a_model",
        "test_operating_system.py::test_commands_work_and_keep_limits_without_a_parent_that_watches",
        "test_sizes_of_tensors.py::test_initializers_of_such_sizes_are_planned_for_or_refused",
        "test_startup.py::test_a_program_that_uses_the_editor_asks_the_network_for_nothing",
        "test_startup.py::test_no_command_asks_the_network_for_anything",
        "test_startup.py::test_no_module_of_the_current_folder_is_imported",
        "test_startup.py::test_the_counter_sees_requests_of_native_code_and_of_names",
        "test_startup.py::test_the_page_imports_no_module_of_the_current_folder",
        "test_startup.py::test_the_page_s_server_asks_the_network_for_nothing",
        "test_terminal.py::test_an_encoding_that_lacks_characters_gets_escapes",
        "test_terminal.py::test_errors_that_cannot_be_written_are_lost_and_nothing_else",
        "test_terminal.py::test_no_name_of_a_model_controls_the_terminal",
        "test_terminal.py::test_output_that_cannot_be_written_is_said_in_words",
        "test_terminal.py::test_progress_on_a_terminal_still_moves_the_cursor",
        "web/test_audited_layouts.py::test_a_layout_has_the_devices_of_the_plan_where_it_has_all_that_the_session_uses",
        "web/test_audited_layouts.py::test_hetero_is_asked_and_takes_no_session_options",
        "web/test_early_end.py",
        "web/test_edits.py::test_unknown_and_malformed_edits_are_errors",
        "web/test_measurements.py::test_a_measurement_is_of_the_present_plan_by_whatever_steps_one_comes_to_it",
        "web/test_measurements.py::test_the_end_of_a_benchmark_leaves_the_event_loop_free_while_another_program_holds_the_database",
        "web/test_measurements.py::test_the_measurements_of_closed_documents_are_forgotten",
        "web/test_kept_measurements.py::test_the_verdict_of_a_plan_is_known_after_a_restart",
        "web/test_measurements.py::test_times_of_subgraphs_and_transfers_add_up_to_those_of_the_run",
        "web/test_routes.py",
        "web/test_sets.py::test_a_number_of_times_that_is_none_is_refused",
        "web/test_shutdown.py",
        "web/test_uploads.py::test_a_damaged_zip_file_is_a_message_wherever_it_is_damaged",
        "web/test_uploads.py::test_a_head_that_is_too_large_is_answered_at_once_and_closed",
        "web/test_uploads.py::test_connections_that_say_nothing_or_stop_are_closed",
        "web/test_uploads.py::test_memory_stays_flat_while_two_gigabytes_go_up",
        "workspace/test_database.py::test_servers_that_open_a_workspace_at_once_all_open_it",
        "workspace/test_database.py::test_servers_that_open_a_workspace_in_postgresql_at_once_all_open_it",
        "workspace/test_database.py::test_threads_of_one_server_do_not_tell_each_other_to_wait",
        "workspace/test_model_set.py::test_the_command_line_places_a_set",
        "workspace/test_model_set.py::test_the_runs_of_all_models_fit_beside_the_weights_of_the_others",
        "workspace/test_phases.py::test_both_placements_run_and_give_the_tokens_of_the_unsplit_model",
        "workspace/test_phases.py::test_the_command_line_places_and_measures_phases",
        "workspace/test_phases.py::test_two_placements_where_the_devices_are_good_at_different_phases",
        "workspace/test_phases.py::test_what_does_not_fit_names_memory_and_not_pins",
        "workspace/test_plan_file_placement.py::test_a_plan_with_measured_costs_is_read_where_there_is_no_profile",
        "workspace/test_plan_file_placement.py::test_what_the_policy_would_decide_otherwise_is_kept_without_pins",
        "workspace/test_sizes.py::test_a_comparison_of_sizes_ends_when_it_is_cancelled",
        "workspace/test_sizes.py::test_a_plan_by_a_profile_has_estimates_at_sizes_that_were_not_measured",
        "workspace/test_sizes.py::test_each_row_is_the_plan_of_the_model_at_these_sizes",
        "workspace/test_sizes.py::test_sizes_that_go_together_are_sets_of_their_own",
        "workspace/test_sizes.py::test_the_command_prints_a_line_for_each_size_and_says_on_a_terminal_which_it_solves",
        "workspace/test_sizes.py::test_whoever_only_looks_at_other_sizes_comes_back_to_the_history_that_was_there",
    }
)
"""What matters less often than on each change: packages, matrices of faults and signals, most stories of the page.

Entries are like those of ``SLOW``, or whole folders.
"""

NOT_FULL: frozenset[str] = frozenset(
    {
        "browser/test_page.py::test_bad_input_is_a_message",
        "browser/test_page.py::test_blocks_open_and_close_and_are_painted_in_every_layer",
        "browser/test_page.py::test_find_by_name_tensor_and_type",
        "browser/test_page.py::test_the_main_job",
        "browser/test_page_tools.py::test_affinities_of_other_tools_are_imported_with_what_was_left_out",
        "web/test_early_end.py::test_a_port_in_use_is_a_message_only",
    }
)
"""Tests of those files and folders that `make test` runs all the same."""

_SLOW_SECONDS = 0.12

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


def main(report: str) -> None:
    """Adds the tests that took long in a run to ``slow.txt``."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].removeprefix("tests.").replace(".", "/") + ".py"
        test = case.attrib["name"].partition("[")[0]
        seconds[f"{file}::{test}"] += float(case.attrib["time"])
    found = {test for test, spent in seconds.items() if spent > _SLOW_SECONDS}
    listed = sorted(name for name in SLOW | found if name.partition("::")[0] not in SLOW)
    files = sorted(name for name in SLOW if "::" not in name)
    (Path(__file__).parent / "slow.txt").write_text("\n".join(sorted(files + listed)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

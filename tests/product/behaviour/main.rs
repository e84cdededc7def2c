//! The behaviour of belay, one file a behaviour, named as a sentence: the real daemon, a real client, the embedded
//! cluster, a real Git repository in a temporary folder, time paused.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../command_line/schema.rs"]
#[allow(dead_code, reason = "commands are looked at elsewhere")]
mod schema;
#[path = "../../support/mod.rs"]
mod support;

mod a_bad_file_does_not_stop_the_others;
mod a_bad_repository_harms_no_other;
mod a_branch_may_be_set_back;
mod a_controller_rolled_by_hand_is_left_alone;
mod a_failure_stays_one;
mod a_first_deployment_that_fails_is_left;
mod a_held_manifest_is_not_applied_again;
mod a_hold_is_let_go_by_what_changes;
mod a_hold_is_told_everywhere;
mod a_hold_survives_deletion;
mod a_kill_loses_no_record;
mod a_lost_history_is_rebuilt;
mod a_newer_commit_takes_over_at_once;
mod a_rollback_that_fails_is_not_retried;
mod a_strategy_may_change;
mod a_suspension_is_obeyed_in_every_state;
mod a_verdict_stays;
mod a_whole_commit_goes_back;
mod accidents_are_refused;
mod all_is_quiet_once_it_is_rolled_out;
mod an_api_server_comes_and_goes;
mod an_idle_daemon_asks_for_nothing;
mod an_undo_is_respected_in_every_state;
mod an_undo_with_kubectl_is_respected;
mod answers_in_json_over_http;
mod applies_manifests_of_any_kind;
mod bad_input_is_named_and_survived;
mod bad_upon_bad_goes_back_to_what_was_good;
mod charges_the_newest_commit;
mod commits_have_a_status_at_their_forge;
mod commits_of_every_kind_are_followed;
mod configuration_goes_back_with_it;
mod configuration_rolls_what_reads_it;
mod definitions_change_with_their_objects;
mod drift_is_put_right;
mod every_kind_of_workload;
mod every_transition_is_in_the_history;
mod finds_what_left;
mod forbidden_is_a_state_with_a_reason;
mod gives_up_early_where_asked;
mod goes_back_whatever_was_lost;
mod hooks_are_hints_to_look;
mod hooks_of_charts_run_in_order;
mod it_costs_what_changed;
mod jobs_run_once;
mod killed_at_any_request_it_ends_the_same;
mod leaves_fields_alone;
mod never_back_to_what_was_unwell;
mod no_object_stops_another;
mod notices_tell_what_became_of_commits;
mod one_daemon_writes;
mod one_state_is_published;
mod pages_tell_people_what_is_wrong;
mod people_may_ask_otherwise;
mod prunes_what_left;
mod pushes_faster_than_rollouts;
mod replication_controllers_are_rolled;
mod rollouts_wait_for_one_another;
mod rolls_out_what_a_commit_says;
mod rolls_out_what_is_rendered;

mod several_folders_are_one_source;
mod shows_itself_over_http;
mod small_things_are_true;
mod sources_wait_for_one_another;
mod starts_while_git_is_away;
mod states_are_told_in_one_vocabulary;
mod takes_back_what_fails;
mod telling_holds_up_nothing;
mod tells_what_is_wrong;
mod the_change_cause_follows_the_template;
mod the_neighbours_do_not_matter;
mod the_number_of_pods_is_judged;
mod the_way_back_comes_to_its_end;
mod the_world_is_waited_out;
mod two_sources_may_not_claim_one_object;
mod what_history_names_is_kept;
mod what_is_excluded_is_no_manifest;
mod what_others_keep_changing;
mod what_somebody_made_anew_is_belays_again;
mod what_was_refused_is_tried_again;
mod what_was_restored_comes_back;

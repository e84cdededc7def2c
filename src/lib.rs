//! belay rolls out what a Git repository says, and takes back, by itself, what fails.
//!
//! This page is the map of the house. The README says what belay is for; the words used here are the words its users see.
//!
//! # How a commit flows
//!
//! ```text
//!   git ──────▶ manifest ─────▶ rollout::plan ─────▶ cluster::apply ─────▶ cluster::watch ─▶ rollout::judge
//!   the branch  texts become    manifests × what     server-side apply,    every workload     complete, or
//!   moved       objects, or     is live × holds:     rank by rank          whose template     failed and why
//!               complaints      a finished Plan                            changed                │
//!                                                          ▲                                      │ failed
//!                                                          └── rollout::rollback ◀──────── cluster::evidence
//! ```
//!
//! Every step is recorded in `history` before and after it is taken. `daemon` joins the rooms. What becomes of one object
//! is decided in `rollout`; what concerns several at once is decided in `daemon`: which plan takes the place of which, what
//! is taken up again, how much is pruned, who holds the Lease, what goes back together.
//!
//! # Rooms
//!
//! A room is a crate of the workspace (`crates/`), a module of `belay-core`, or a module of this crate.
//!
//! | room | what it is | what it may touch |
//! |---|---|---|
//! | [`kube_facts`] | crate `kube-facts`: facts about Kubernetes' kinds, generated from a real API server | nothing: data |
//! | [`manifest`] | in `belay-core`: text to objects, each with its place | nothing: pure |
//! | [`rollout`] | in `belay-core`: what to do: plan, judge, way back, hold, record | nothing: pure, time is an argument |
//! | [`git`] | in: the branch, what changed, texts at a commit | libgit2, the mirror's folder, the network |
//! | [`render`] | folders that kustomize or Helm turns into manifests: which there are, from what, the tool's run | a tool as a child process, private folders |
//! | [`cluster`] | out: read, watch, apply, evidence, events | the Kubernetes API |
//! | [`history`] | memory: what became of each manifest of each commit | one SQLite file |
//! | [`daemon`] | the loop that joins the rooms above | the rooms above |
//! | [`web`] | show: pages, JSON and metrics over HTTP; it only reads | a socket, the history, the cluster |
//! | [`notices`] | tell: sends what became of commits to receivers elsewhere | the history, sockets to receivers |
//! | [`cli`] | say: the only room that prints, one file a command | terminal, everything |
//! | [`minicluster`] | crate: a small Kubernetes in one process; knows nothing of belay | its own store, a socket when asked |
//! | [`config`] | a leaf: the configuration file | nothing |
//! | [`telemetry`] | a leaf: logs, what systemd wants to hear, and what is counted | standard error, systemd's socket, `/proc` |
//! | [`blocking`] | a leaf: what waits for a disk keeps no other task of the runtime waiting | nothing |
//! | [`backoff`] | a leaf: how long is waited before something is tried again | nothing |
//! | [`clock`] | a leaf: what time it is | the clock |
//!
//! Imports run one way: `main → cli → {web → daemon → {git, render, cluster, history} → rollout → manifest → kube_facts}`,
//! `cli → notices → history`, and `cli → minicluster → kube_facts`. `minicluster` and the rest never import each other: a misreading of Kubernetes that both
//! shared would cancel out in every test. The manifests of the crates hold the walls between crates, `tests/tidy.rs` those
//! between modules.
//!
//! # Inside the daemon
//!
//! `daemon/source.rs` is the loop of one source: it takes an event, `state/on` decides what becomes of it, and `perform` begins
//! what that says is to be done. What is known is in `state/known`, in plain values; what takes time runs beside the loop and
//! comes back as an event (`task_result`). What a decision must know of Git or the history is read there and comes with its
//! event. No file imports one that imports it.
//!
//! | what | files of `daemon/` |
//! |---|---|
//! | the loop | `source` `state` `perform` `task_result`; `restart` is its start |
//! | what is decided across objects | `state/on`: `state/fetch_events` (looks, refused heads, quarantine), `state/plan_events` (which plan takes the place of which), `state/rollout_events` (superseding, ends, panics), `state/drift_events` (what is looked into, corrected, reported, taken up), with `state/event`, `state/known`, `state/fetching` and `state/drift` |
//! | a fetch, and what a new head says | `look` `quarantine` `repository` `capabilities` `read_head` `head_change` `head_reading` `units` `unit_changes` `desired_state` `file_facts` `offline_start` |
//! | a plan | `plan_head` `plan_request` `planner` `prepared` `recorded_facts` `live_objects` `config_rollout` `ownership_conflict` `source_dependency` |
//! | beginning rollouts, and taking them up again | `start` `resume` `rollout_end` `apply_wave` `dependency_gate` |
//! | one rollout | `rollout` is the story; `rollout_task` `apply_manifest` `takeover` `established` `health_monitor` |
//! | going back | `rollback_facts` gathers what the core plans by, `rollback` carries out any such plan, `rollback_watch` proves it; `rollback_target` `dependent_config` `commit_rollback` `failure` `fallback_template` `previous_manifest` |
//! | an undo by a person | `manual_rollback` |
//! | what differs between kinds of workloads | `driver`; `stuck_pods` of StatefulSets, `replication_controller` `rolled_pods` |
//! | what the watches tell, and drift | `watch_events` `in_sync` `recheck` `reported` `external_changes` `recovered` `unhealthy` `autoscalers` `deferred_watch` `deferred_kinds` `live` `rights` |
//! | pruning | `prune_candidates` `prune` `made` `unmanaged` `revision_references` `cleanup` |
//! | what is recorded | `journal` `journal_queue` `standing` `retention` `rebuild` |
//! | what is published, and noted to be told | `status` `lasting_trouble` `readiness` `event_queue` `queued_events` |
//! | who follows a source | `leadership` `leading` |
//! | what all of these are given | `context` `requests` `tasks` `blocking_pool` `panics` `task_panics` `commit_tree` `refused` |
//!
//! # Invariants
//!
//! 1. The pure rooms touch nothing: same inputs, same answer.
//! 2. A plan is complete before the first write; applying it takes no decisions.
//! 3. Rolling back is rolling out an earlier template; there is one path, used both ways.
//! 4. belay changes and deletes only what carries its mark; it takes over only what its repository names.
//! 5. One rollout at a time per workload; a newer commit replaces it.
//! 6. Every manifest of every commit that the daemon acted on ends in exactly one record; killing belay loses none.
//! 7. A failed manifest is never applied a second time while it is held; a rollback is never itself rolled back.
//! 8. Every wait has a limit, every queue has a bound, every retry has a back-off.
//! 9. belay can't tell the embedded cluster from a real one; the embedded cluster can't tell belay from kubectl.
//! 10. Secret values never reach a log, a diff, a record, an error or a page.

pub use belay_core::{manifest, rollout};

pub mod backoff;
pub mod blocking;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod git;
pub mod history;
pub mod notices;
pub mod render;
pub mod telemetry;
pub mod web;

//! belay rolls out the manifests of a Git repository, and rolls back, by itself, a commit that fails.
//!
//! This page is the map of the code. The README gives the purpose of belay; the words used here are the words its
//! users see.
//!
//! # Read these first
//!
//! Twelve files show the road of a commit: `daemon/source/event_loop.rs` (the loop), `daemon/source/state/on.rs` (the
//! decisions), `daemon/source/perform.rs` (the effects), `daemon/repository/look.rs` (a fetch),
//! `daemon/repository/head_reading.rs` (a new head), `daemon/planning/plan_parts.rs` (the plan, object by object),
//! `rollout/plan/mod.rs` (the step for one object), `daemon/rollout/run.rs` (one rollout), `rollout/judge/mod.rs` (the
//! verdict), `rollout/rollback/plan.rs` and `daemon/rollout/rollback/executor.rs` (the rollback),
//! `daemon/records/journal.rs` (what is written down).
//!
//! # The flow of a commit
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
//! Every step is recorded in `history` before and after it is taken. `daemon` joins the rooms. `rollout` decides about
//! one object; `daemon` decides about several at once: which plan takes the place of which, which rollouts continue
//! after a restart, how much is pruned, which daemon holds the Lease, which objects go back together.
//!
//! # Rooms
//!
//! A room is a crate of the workspace (`crates/`), a module of `belay-core`, or a module of this crate.
//!
//! | room | contents | access |
//! |---|---|---|
//! | [`kube_facts`] | crate `kube-facts`: facts about Kubernetes' kinds, generated from a real API server | nothing: data |
//! | [`manifest`] | in `belay-core`: text to objects, each with its place; complaints; edits of a manifest's text | nothing: pure |
//! | [`rollout`] | in `belay-core`: decisions: plan, judge, roll back (with holds), field ownership, rolling update of ReplicationControllers, record | nothing: pure, time is an argument |
//! | [`span`] | in `belay-core`: lengths of time as people write them, `1h30m` | nothing: pure |
//! | [`git`] | the branch, its changes, texts at a commit; the working copy of a person who commits | libgit2, the mirror's folder, the network; for a person's commit also the working copy, `gpg` and `ssh-keygen` |
//! | [`render`] | folders that kustomize or Helm turns into manifests: finding them, their inputs, the tool's run | a tool as a child process, private folders |
//! | [`cluster`] | the Kubernetes API: read, watch, apply, evidence, events | the Kubernetes API |
//! | [`history`] | the record of each manifest of each commit | one SQLite file |
//! | [`daemon`] | the loop of each source, which joins the rooms above | the rooms above |
//! | [`web`] | pages, JSON, metrics, `/healthz` and `/readyz` (`web/answer`) over HTTP, which change nothing; Git servers' webhooks, `POST /hooks/SOURCE` (`web/hooks`), which ask the daemon to look at a source | a socket, the history, the cluster, the mirrors |
//! | [`notices`] | sends outcomes of commits to receivers elsewhere, and their traces to a collector; `notices/sender` repeats failed deliveries | the history, sockets to receivers |
//! | [`cli`] | the commands, and the only room that prints; a command is a file or a folder of `cli/commands` | terminal, everything |
//! | [`kube_rules`] | crate `kube-rules`: what an API server does to an object before it stores it: read, default, validate, warn, patch, apply; used by `minicluster` and by `belay check` | nothing: pure |
//! | [`minicluster`] | crate: a small Kubernetes in one process; knows nothing of belay | its own store, a socket when asked |
//! | [`config`] | a leaf: the configuration file, and the files with secrets that it names | those files |
//! | [`telemetry`] | a leaf: logs, counters, and messages to systemd (`cli/commands/run/systemd` says when) | standard error, systemd's socket, `/proc` |
//! | [`blocking`] | a leaf: work that waits for a disk keeps no other task of the runtime waiting | nothing |
//! | [`allocator`] | a leaf: the C library's allocator, which is to give freed memory back | the memory of the process |
//! | [`http_client`] | a leaf: requests to Prometheus, and to a daemon's JSON, over HTTP: bounded, without redirects | sockets to them |
//! | [`interim_answers`] | a leaf: the bound of the interim answers (1xx) that servers send | hyper |
//! | [`parent_death_signal`] | a leaf: child processes end when belay is killed | the kernel |
//! | [`plain_line`] | a leaf: texts from elsewhere as one line without control characters | nothing |
//! | [`prometheus`] | instant queries of Prometheus' HTTP API, and the samples of their answers | a socket to Prometheus |
//! | [`secrets`] | a leaf: the texts that are never shown of an answer | nothing |
//! | [`regular_file`] | files that are read as a whole, regular ones only and up to a limit | those files |
//! | [`systemd_unit`] | a leaf: the paths that a unit of systemd hides from its service, and the credentials that it hands over | nothing |
//! | [`tls`] | a leaf: the authorities that are trusted over TLS, by the Git transports, by notices and by `http_client` | `ca_file`, the certificates of the machine |
//! | [`state_folder`] | a leaf: the state folder, which is not written where something else has taken its place | that folder |
//! | [`backoff`] | a leaf: how long is waited before something is tried again | nothing |
//! | [`clock`] | a leaf: the present time | the clock |
//! | [`user_agent`] | a leaf: the name of belay in its requests to other servers | nothing |
//!
//! Imports run one way: `main → cli → {web → daemon → {git, render, cluster, history} → rollout → manifest → kube_facts}`,
//! `cli → notices → history`, and `cli → minicluster → kube_rules → kube_facts`. `minicluster` and the rest never import each other: a misreading
//! of Kubernetes that both shared would cancel out in every test. Only `belay check` asks `kube_rules` itself, for an API server's answer without one. The manifests of the crates hold the walls between crates, `tests/tidy.rs` those
//! between modules.
//!
//! # Inside the core
//!
//! `belay-core` decides; the daemon and the commands gather its facts, and carry out its decisions.
//!
//! | subject | files of `crates/belay-core/src/` |
//! |---|---|
//! | text to objects, each key and value with its place; a key written twice; values to text (`emit`); the memory that a value takes, by its text (`value_memory`) | `manifest/yaml` (`manifest/yaml/placed` `manifest/yaml/emit`) `manifest/value_memory` |
//! | which fields a kind has, which values they take, hints for a misspelt (`nearest`) or misplaced (`meant`) field | `manifest/schema` |
//! | what the API server refuses beyond that; which kinds live in a namespace | `manifest/rules` `manifest/scopes` |
//! | a file to manifests (`manifest/set`), all files of a commit (`manifest/manifest_set`), an object that is written twice (both, `manifest/written`); a link or submodule in the place of manifests (`not_read`) | `manifest/set` `manifest/manifest_set` `manifest/one_manifest` `manifest/not_read` |
//! | the output of a tool, with the place that it comes from; Helm's hooks | `manifest/rendered` `manifest/helm_hooks` |
//! | complaints and how they are shown, without values that may be secret | `manifest/complaint` `manifest/report` `manifest/render` `manifest/secrecy` |
//! | edits of a manifest that keep every other line (`belay set`, `belay scale`) | `manifest/edit` (a line changed: `manifest/edit/replace`) |
//! | the step for one object: refused, held, left alone, applied | `rollout/plan` (its `mod.rs`) |
//! | the order of kinds, `belay.dev/after` (complaints: `rollout/plan/wrong_order`), permission to delete | `rollout/plan/order` `rollout/plan/after` `rollout/plan/prune` |
//! | the decision if a rollout goes on after a restart, or under a newer commit, or is rolled back | `rollout/plan/resume` |
//! | the decision if a Job that is gone has run for its manifest | `rollout/plan/job_run` |
//! | the changes of an apply, with Secrets masked | `rollout/plan/diff` |
//! | a rollout because a ConfigMap or Secret changed | `rollout/plan/config_hash` `rollout/plan/references` |
//! | the verdict: deadlines, and the time of an outage that is added to them (measured by `rollout/judge/outage`) | `rollout/judge` (its `mod.rs`) |
//! | the bake time after completion: restarts and lost readiness of pods | `rollout/judge/bake` |
//! | the steps of a canary, its locks, and the next move of a step | `rollout/canary` |
//! | what Prometheus measures of a rollout, and the verdict: the comparison of error rates (`error_rates`), from counters (`counters`) | `rollout/analysis` |
//! | the cause of a failure, as it is counted | `rollout/judge/failure_cause` |
//! | failing before the deadline; a workload's own status, one file a kind | `rollout/judge/fail_fast`; `rollout/judge/health` |
//! | the rollback: its target revision, its writes, its hold and the end of a hold, also if the cluster has lost it; the objects of a commit that go back | `rollout/rollback/target` `rollout/rollback/plan` `rollout/rollback/hold` `rollout/rollback/kept_hold` `rollout/rollback/whole_commit` |
//! | `kubectl rollout undo` and `belay undo`, recognised and held | `rollout/rollback/manual_rollback` `rollout/rollback/by_hand`; the writes of the command `belay undo`: `rollout/rollback/undo` |
//! | fields that others own or that are ignored; `replicas` of a workload with an autoscaler | `rollout/ownership/owned` `rollout/ownership/ignored_fields` `rollout/autoscaler` |
//! | additions of others that must go; fields that the cluster writes itself; `stringData`, which is sent as `data` | `rollout/ownership/surplus` (`rollout/ownership/field_set`, items of lists by their keys: `rollout/ownership/list_items`); `rollout/ownership/cluster_fields`; `rollout/ownership/string_data` |
//! | taking over from another tool; whether a Lease is free | `rollout/ownership/takeover` `rollout/ownership/lease` |
//! | rolling updates of ReplicationControllers, `belay rolling-update` | `rollout/rolling_update` (the next step: `rollout/rolling_update/roll`, its size: `rollout/rolling_update/sizes`) |
//! | what keeps an object that is being deleted | `rollout/deletion` |
//! | outcomes, states, reasons, triggers | `rollout/record` |
//!
//! # Inside the daemon
//!
//! `daemon/source/event_loop` takes an event, `daemon/source/state/on` decides the reaction to it, and
//! `daemon/source/perform` carries it out. The known facts are in `daemon/source/state/known`, in plain values; slow work
//! runs beside the loop and comes back as an event (`daemon/source/task_result`). The facts about Git or the history that
//! a decision needs are read there and come with its event. No file imports one that imports it. The `mod.rs` of a folder
//! says what goes in and out; `daemon/reload` adds, removes and changes sources when the configuration was read again (by
//! `src/cli/commands/run/reload`). A folder imports those above it in this table alone: none of them knows the loop. Their
//! tasks get plain arguments and return plain values, which `source` turns into events (checked by `tests/tidy`).
//!
//! | folder of `daemon/` | subject: files |
//! |---|---|
//! | `publish` | published state: `status` (with `obstacle`: what is in the way, and its name), which `status_socket` says to commands; `canary_plan` `related_object`; `queued_events` `lasting_trouble`; `dispute` is what is said of others who keep changing an object, `noted_disputes` keeps it over a restart |
//! | `shared` | the context of all tasks: `context` `requests` `rollout_slots` `tasks` `blocking_pool` `panics` `commit_tree` `cleanup` `journal_queue` `live`; registers that several tasks write: `kept_holds` (holds that the cluster has lost) `finished_jobs` (kept in the Lease) `missing` `autoscalers` `dependent_locks`; waits of a head: `source_dependency` `windows` (let through by a person: `sync_now`) |
//! | `repository` | a fetch: `look`; the mirror: `open_mirror` opens it, again where that fails |
//! | | a new head: `read_head` reads it and notices one that empties or replaces everything; `head_reading` charges each change to its commit (by `git/read/attribution`; rendered folders: `unit_changes`; objects that moved to another file before they left: `moved_objects`); `lost_folder` complains about a folder that became a link, a submodule or a file (of a working copy: `src/cli/worktree/lost_folders`, by `src/git/worktree/lost_folders`); `beyond_limits` does not read again what is too large; `quarantine` leaves alone a repository that brought belay down (for how long: `git/mirror/attempt`) |
//! | | what is known of it: `source_repository` `source_options` `capabilities` `head_change` `units` `desired_state` `prepared` `unmanaged` `file_facts` `read_files` `offline_start` |
//! | `records` | `journal` (`queued_writes`: what many tasks write at once, and what the loop notes without waiting) `charged_commits` `retention` `rebuild`; `history_file` keeps the history's file in its place |
//! | `planning` | a plan: `plan_request` `planner` `plan_parts` (object by object) `refused_definitions` `plan_surplus` `on_outage` `keep_held` `recorded_facts` `planned_records` `live_objects` `config_rollout`; `plan_once` plans for `belay plan`; `made` says whether an object is this source's (the core refuses what is another's), `ownership_conflict` reports it; `refused` has the API server's refusals, and the choices that a person has then |
//! | | pruning: `prune_candidates` finds what left the repository and how much may be deleted at once; `revision_references` |
//! | `rollout` | one rollout: `run` is all of it, from the plan to the record; `rollout_task` `canary_progress` `apply_wave` `apply_manifest` `takeover` `established` `health_monitor` (the pods: `health_monitor/pods`; the bake time: `health_monitor/bake`, a step of a canary: `health_monitor/canary`, what Prometheus measures in it: `health_monitor/analysis` `health_monitor/measured_rollout`, and what a Job decides: `health_monitor/analysis_job`; the waits between looks: `health_monitor/next_state`) `rollout_end` `deferred_kinds`; `prune` compares and deletes; `patience` `until_served` gives up what is not served, or needs something that is missing (`shared/missing` tells the loop, and `source/missing_watch` watches for that) |
//! | `rollout/kinds` | differences between kinds of workloads: `driver`; `stuck_pods` of StatefulSets, `canary` (of a DaemonSet: `replaced_nodes`), `replication_controller` `rolled_pods` (back: `controller_rollback`); `job_runs` says which Jobs have run that are gone (decided by the core's `rollout/plan/job_run`); `finished_hooks` deletes hooks of charts after those that need them |
//! | `rollout/rollback` | `facts` gathers what the core plans by, `executor` carries out any such plan, `watch` proves it; `target` `dependent_config` `commit_rollback` `failure` `fallback_template` `previous_manifest` `unhealthy` (replaced); `manual_rollback` recognises and holds `kubectl rollout undo` and `belay undo` |
//! | `live` | live objects, and drift: `in_sync` `recheck` `reported` `published_holds` `external_changes` `recovered` `unhealthy_pods` (without a rollout, by `source/state/unhealthy_workloads`) `rights`; `standing` writes the state of objects down; `same_object` knows an object under each name that a manifest may have for it |
//! | `source` | the loop: `event_loop` `state` `perform` `task_result` `task_panics` `event_queue`; `source_parts` makes it; `startup` reads the records that an earlier run left open; `liveness` answers systemd's watchdog; `plan_head` plans; `start` begins rollouts, and `record_ends` ends records that need none; `waiting` lets objects wait for others, for a slot, or for something that is missing (`missing_watch`); `commit_rollback` takes whole commits back; `source_completion` says whether a source is complete, for sources that wait for it; `history_upkeep` forgets old records, and begins again with a new history |
//! | | reports of the watches (`watches`): `watch_events` takes them, `manual_changes` writes down what was changed by hand, `drift_reports` reports what is not corrected |
//! | `source/state` | decisions across objects: `on` hands each event to the file that decides it: `fetch_events` (looks, and heads refused because they empty or replace everything), `plan_events` (which plan takes the place of which), `rollout_events` (superseding, ends, panics), `drift_events` (what is looked into, and taken up), `corrections` (what is corrected, now or later, or reported), `retry_events` (what waits or was refused is tried again, by `retries`), `live_events` (facts about live objects), `manual_changes` (undos, restarts, changes of size), `pruning` (what may be deleted), `waiting` (dependencies, slots, the end of a wait), `startup` (the work from before belay stopped), `reset_events` (knowledge that is given up), with `event`; `continued_rollout` lets a rollout go on under a newer commit (noted by `rollout_events`, decided by the core's `rollout/plan/resume`); `known` is made of parts that own their data: `planning` `rollouts` `live_objects` `unhealthy_workloads` `drift` `disputes` `retries` `prune_search` `fetching` |
//! | `leadership` | `lease` gets, keeps and loses the Lease, `leading` follows meanwhile; without it `cluster/lease` stops every write |
//!
//! # Inside the other rooms
//!
//! | subject | file |
//! |---|---|
//! | reaching a repository: which addresses (`location`), with what belay shows (`credentials`), over http and https (`http`, `http_client`, `redirect`) and by the program `ssh` (`ssh`, `ssh_command`, `ssh_errors`, `askpass`) in libgit2's place (`register`), within the limits of a session (`session`), the fetch (`fetch`; from this machine: `import`, whose files are looked at first: `local_files`, and whose commits: `surplus_parents`, whose pushes wake belay: `wake`) | `src/git/transport` |
//! | belay's copy of it: its memory, damage, packs, what is thrown away (`garbage`) and what never (`pins`) | `src/git/mirror` |
//! | the branch, tag or commit that is followed; limits of reading; the commit that is charged with a change, and the changes between two heads | `src/git/read/follow` `src/git/read/limits` `src/git/read/attribution` `src/git/read/tree` |
//! | the commits of a person: the working copy, signatures (`signing`), the push | `src/git/worktree`; which manifests are meant: `src/cli/worktree` |
//! | the folders that are rendered, the files that count, the inputs of a folder, the kept renderings, the origin of an object | `src/render/find` `src/render/excluded` `src/render/closure` `src/render/cache` `src/render/origins` |
//! | a tool's run: its limits of time, memory and output, and its end | `src/render/child`; what it may see: `src/render/confine`; what it said when it failed: `src/render/said` |
//! | reads, lists and watches, of which objects come as text, with the memory that each takes reckoned before; which kinds are served; one request, its answer while it arrives, whether that is the object that was asked for, and when it is made again | `src/cluster/read` `src/cluster/pages` `src/cluster/watch`, `src/cluster/object_text`; `src/cluster/discovery` `src/cluster/kinds`; `src/cluster/call` `src/cluster/response_body` `src/cluster/object_answer` `src/cluster/retry` |
//! | writes of the daemon and of the commands; a write that is not allowed without the Lease | `src/cluster/apply` `src/cluster/patch`; `src/cluster/lease` |
//! | the reason for which a workload does not come up (pods, events, last lines), without secrets; Kubernetes Events about it; an API server that does not answer, or is ready and can't serve one object (`readiness`) | `src/cluster/evidence` `src/cluster/masking`; `src/cluster/events`; `src/cluster/outage` `src/cluster/readiness` |
//! | the history's plain types and the computations on them: records, the timeline, the four figures of delivery, earlier templates, notices (whether an end is news: `src/history/commit_notice`); answers of several questions (the harm of a state, the cause in a line by the core's `rollout/record/short_cause`) | `src/history/records` `src/history/timeline` `src/history/stats` `src/history/templates` `src/history/outbox`; `src/history/query` |
//! | its one store, all of SQLite: `history.db`: opened, refused where a newer belay wrote it, set aside where it is damaged | `src/history/sqlite/store/file` (formats: `src/history/sqlite/store/format`; an older one copied and brought up: `src/history/sqlite/store/upgrade`; set aside: `src/history/sqlite/store/aside`; a full disk: `src/history/disk_space`) |
//! | writes into it: plans, the line of the timeline in which a record counts, forgetting, the outbox of notices (the outcome of a commit: `commit`) | `src/history/sqlite/write/begin` `src/history/sqlite/write/timeline_plan` `src/history/sqlite/write/retention` `src/history/sqlite/notices` |
//! | questions to it: records, the timeline, the rollouts that are counted, earlier templates | `src/history/sqlite/query` (`records` `timeline` `stats` `templates`) |
//! | pages for people, a file each (counts and rows with the most harmful first: `headline` `overview_rows` `workload_row`; commands: `next_step`; a canary: `canary_steps`; the objects around a workload: `related_objects`); their live change; diffs, the progress of rollouts, links to the forge | `src/web/pages`; `src/web/live`; `src/web/manifest_diff` `src/web/rollout_progress` `src/web/forge` |
//! | JSON and its OpenAPI; metrics; which host names are answered | `src/web/api` `src/web/openapi`; `src/web/metrics`, counted in `src/telemetry/metrics` (read from their text: `src/web/metric_lines`); `src/web/hosts` |
//! | webhooks: the look that they ask for, and whether their signature is right | `src/web/hooks` `src/web/hook_signature` |
//! | messages to a recipient (`recipient`), again and again if one fails | `src/notices/sender` (to a receiver: `src/notices/receiver`; content: `src/notices/message`; by HTTP, mail, Slack, as a forge's commit status: `send` `mail` `slack` `forge`) |
//! | the trace of a commit, for a collector of OpenTelemetry | `src/notices/collector` (spans: `src/notices/commit_trace`; their JSON: `src/notices/otlp`) |
//! | to which addresses nothing is sent | `src/notices/lookup` (which are private: `src/notices/address`) |
//! | a command | `src/cli/commands`; `belay simulate`'s most and fewest pods: `src/cli/commands/simulate/bounds` |
//! | the object, revision or cluster that is meant; the embedded cluster of a command; tables, diffs and JSON that are printed | `src/cli/args` `src/cli/session`; `src/cli/session/embedded`; `src/cli/output` |
//! | the configuration: a source's keys, which source waits for which, files with secrets, the collector of traces, its JSON schema | `src/config/source` `src/config/order` `src/config/secret_file` `src/config/telemetry` `src/config/schema` |
//! | the embedded API server: the stages of a write | `crates/minicluster/src/api/write`; rules of kinds: `crates/kube-rules/src/validate`; who owns which field, and conflicts of that: `crates/kube-rules/src/apply` (`update`); quotas (`quota`), ports (`services`), accounts of pods (`service_account`): `crates/minicluster/src/api/admission`; who may ask for it: `crates/minicluster/src/api/access`; what is stored, and its watches: `crates/minicluster/src/api/store` (from how far back: `resource_store`) |
//! | the embedded controllers, a file or folder each | `crates/minicluster/src/controllers`; maxSurge and maxUnavailable: `crates/minicluster/src/controllers/deployment/sizes`; which pods go first: `crates/minicluster/src/controllers/replica_set/rank`; the objects that they see: `crates/minicluster/src/controllers/informer`, those with a pod template: `crates/minicluster/src/controllers/templated` |
//! | the embedded kubelet: the behaviour of its pods | `crates/minicluster/src/kubelet/simulated_pod`; as told by annotations: `crates/minicluster/src/kubelet/fate/parse`; on which node a pod is put: `crates/minicluster/src/kubelet/scheduler` (may it be there: `filters`, where best: `scores`) |
//!
//! # Invariants
//!
//! 1. The pure rooms touch nothing: same inputs, same answer.
//! 2. A plan is complete before the first write; applying it takes no decisions.
//! 3. Rolling back is rolling out an earlier template; there is one path, used both ways.
//! 4. belay changes and deletes only objects that carry its mark, and deletes only objects that were in the repository
//!    by its history or Git; it takes over only objects that its repository names.
//! 5. One rollout at a time per workload; a newer commit replaces it.
//! 6. Every manifest of every commit that the daemon acted on ends in exactly one record; killing belay loses none.
//! 7. A failed manifest is never applied a second time while it is held; a rollback is never itself rolled back.
//! 8. Every wait has a limit, every queue has a bound, every retry has a back-off or the fixed `interval` of its source.
//! 9. belay can't distinguish the embedded cluster from a real one; the embedded cluster can't distinguish belay from
//!    kubectl.
//! 10. Secret values never reach a log, a diff, a record, an error or a page (`rollout/plan/diff`, `manifest/secrecy`,
//!     `cluster/masking`).

pub use belay_core::{manifest, rollout, span};

pub mod allocator;
pub mod backoff;
pub mod blocking;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod git;
pub mod history;
pub mod http_client;
pub mod interim_answers;
pub mod notices;
pub mod parent_death_signal;
pub mod plain_line;
pub mod prometheus;
pub mod regular_file;
pub mod render;
pub mod secrets;
pub mod state_folder;
pub mod systemd_unit;
pub mod telemetry;
pub mod tls;
pub mod user_agent;
pub mod web;

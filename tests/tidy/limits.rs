//! The numbers of `docs/limits.md` and `docs/security.md` are those of the code.

use std::fs;
use std::path::Path;

/// A row of a table by the beginning of its subject, and the constants whose values stand in it: `file name`. A name in
/// small letters is a field of a default.
type Row = (&'static str, &'static [&'static str]);

const GIT: &[Row] = &[
    (
        "memory that Git takes while",
        &["src/git/mirror/memory.rs OPERATION", "src/git/mirror/memory.rs PROCESS", "src/git/mirror/memory.rs OBJECTS"],
    ),
    ("branches and tags of", &["src/git/read/limits.rs REFERENCES", "src/git/read/limits.rs NAMES"]),
    ("parents of a commit that", &["src/git/read/limits.rs PARENTS"]),
    ("parents of the commits of", &["src/git/read/limits.rs history", "src/git/transport/surplus_parents.rs SURPLUS"]),
    ("a source's own folder", &["src/daemon/repository/open_mirror.rs AGAIN"]),
    (
        "opening a repository on",
        &["src/git/transport/local_files.rs OPEN_TIMEOUT", "src/git/transport/local_files.rs FILES"],
    ),
    ("paths that one commit", &["src/git/read/limits.rs listing_bytes", "src/git/read/limits.rs depth"]),
    (
        "data of one fetch",
        &[
            "src/git/read/limits.rs fetch_bytes",
            "src/git/read/limits.rs fetch_time",
            "src/git/transport/fetch.rs GREETING",
            "src/git/transport/import.rs OBJECTS",
        ],
    ),
    ("a head beyond these", &["src/daemon/repository/beyond_limits.rs AGAIN"]),
    ("interim answers", &["src/interim_answers.rs MOST"]),
];

const RENDERING: &[Row] = &[
    (
        "files `.belayignore` of",
        &[
            "src/render/excluded.rs bytes",
            "src/render/excluded.rs patterns",
            "src/render/excluded.rs globs",
            "src/render/excluded.rs glob_bytes",
            "src/render/excluded.rs FILES",
        ],
    ),
    ("patterns that are remembered", &["src/render/excluded.rs TAKEN"]),
    ("paths that the kustomizations", &["src/render/closure.rs ALL_PATHS", "src/render/closure.rs ALL_BYTES"]),
    ("paths of units that", &["src/daemon/repository/units.rs PATHS", "src/daemon/repository/units.rs PLANS"]),
    (
        "renderings that are kept",
        &["src/render/cache.rs bytes", "src/render/cache.rs renderings", "src/render/outcomes.rs BYTES"],
    ),
    ("time for which a commit", &["src/daemon/repository/units.rs PATIENCE"]),
    ("files that are searched", &["src/render/said.rs BYTES", "src/render/said.rs ENTRIES"]),
    ("output of a tool that", &["crates/belay-core/src/manifest/redaction/mod.rs KEPT"]),
];

const MANIFESTS: &[Row] = &[
    (
        "a file |",
        &[
            "crates/belay-core/src/manifest/yaml/limits.rs file_bytes",
            "crates/belay-core/src/manifest/yaml/limits.rs documents",
        ],
    ),
    (
        "a document, aliases",
        &[
            "crates/belay-core/src/manifest/yaml/limits.rs document_bytes",
            "crates/belay-core/src/manifest/yaml/limits.rs nodes",
            "crates/belay-core/src/manifest/yaml/limits.rs depth",
        ],
    ),
    ("the `config` of a repository on this", &["src/git/transport/local_files.rs CONFIG"]),
    ("commits of a working copy", &["src/git/worktree/lost_folders.rs COMMITS"]),
    ("places of an object", &["crates/belay-core/src/manifest/written.rs NAMED"]),
    ("names that the objects of a chart", &["crates/belay-core/src/manifest/helm_hooks.rs NAMES"]),
    ("names of Jobs and Pods", &["crates/belay-core/src/manifest/hook_deletion.rs NAMES"]),
    ("changes at once in", &["src/daemon/repository/read_head.rs HELD"]),
    (
        "wrong names of `belay.dev/after`",
        &[
            "crates/belay-core/src/rollout/plan/wrong_order.rs UNKNOWN",
            "crates/belay-core/src/rollout/plan/wrong_order.rs SEARCHES",
        ],
    ),
    ("the reason for a suspension", &["crates/belay-core/src/rollout/marks.rs SUSPENSION_LIMIT"]),
    ("a change-cause", &["crates/belay-core/src/rollout/record/commit.rs CHANGE_CAUSE_LIMIT"]),
    ("the pod template of a held", &["src/history/fallback_template.rs SIZE"]),
    ("others that delete or change", &["src/daemon/rollout/rollback/failure.rs DISTURBANCES"]),
    ("others that replace a", &["src/daemon/rollout/rollback/failure.rs DISTURBANCES"]),
    ("a name in `belay.dev/after`", &["crates/belay-core/src/rollout/plan/after.rs LONGEST"]),
    ("a wrong annotation of", &["crates/belay-core/src/rollout/annotations.rs SHOWN"]),
    (
        "a file of the configuration",
        &[
            "src/config.rs LARGEST",
            "src/config/secret_file.rs LARGEST",
            "src/git/transport/credentials.rs SECRET_LIMIT",
            "src/tls.rs CA_FILE",
        ],
    ),
    (
        "what a receiver of notices",
        &[
            "src/notices/bounded_stream.rs RECEIVED",
            "src/notices/send.rs SEND_TIMEOUT",
            "src/notices/send.rs HEADERS",
            "src/notices/send.rs ANSWER",
            "src/notices/send.rs LISTENS",
        ],
    ),
    (
        "a [trace]",
        &[
            "src/notices/collector.rs OBJECTS",
            "src/notices/commit_trace.rs SPANS",
            "src/notices/commit_trace.rs EVENTS",
        ],
    ),
    (
        "a query of Prometheus",
        &[
            "src/prometheus/client.rs QUERY_TIMEOUT",
            "src/prometheus/client.rs LARGEST_ANSWER",
            "src/prometheus/answer.rs SAMPLES",
            "src/prometheus/client.rs QUERIES_AT_ONCE",
        ],
    ),
    (
        "a session of `belay mcp`",
        &[
            "src/cli/commands/mcp/line.rs LINE",
            "src/cli/commands/mcp/tools.rs TEXT",
            "src/cli/commands/mcp/call.rs CALL",
            "src/cli/commands/mcp/call.rs RESULT",
            "src/cli/commands/mcp/session.rs CALLS",
        ],
    ),
    (
        "an answer to `--server`",
        &[
            "src/cli/session/server/api.rs REQUEST_TIMEOUT",
            "src/cli/session/server/api.rs LARGEST_ANSWER",
            "src/cli/session/server/questions.rs RECORDS",
        ],
    ),
    (
        "workloads for whose traffic",
        &[
            "src/cli/commands/plan/present_traffic.rs WORKLOADS",
            "src/cli/commands/plan/present_traffic.rs ASKED",
            "src/cli/session/guard_notes.rs COMPUTED",
        ],
    ),
    (
        "a step of a canary that has failed and is left, until it is marked",
        &["src/daemon/rollout/kinds/canary.rs MARKING"],
    ),
    (
        "newest records of a workload whose",
        &[
            "src/history/sqlite/query/measurements.rs RECORDS",
            "src/daemon/rollout/health_monitor/analysis_job.rs DELETION",
        ],
    ),
    (
        "looks of an analysis",
        &[
            "crates/belay-core/src/rollout/analysis/guard.rs LOOKS",
            "crates/belay-core/src/rollout/analysis/mod.rs ANALYSES",
            "src/web/api.rs LOOKS",
        ],
    ),
    (
        "files that the page of",
        &[
            "src/web/manifest_diff.rs FILE",
            "src/web/manifest_diff.rs BYTES",
            "src/web/manifest_diff.rs FIELDS",
            "src/web/manifest_diff.rs FIELDS_OF_ALL",
        ],
    ),
];

const CLUSTER: &[Row] = &[
    ("one request to the API", &["src/cluster/mod.rs REQUEST_TIMEOUT"]),
    (
        "an answer of it",
        &[
            "src/cluster/response_body.rs ANSWER_LIMIT",
            "src/cluster/pages.rs PAGE_BYTES",
            "src/cluster/items.rs ITEM_LIMIT",
            "src/cluster/pages.rs LIST",
            "src/cluster/pages.rs LIST_BYTES",
        ],
    ),
    ("kinds that the API server", &["src/cluster/discovery.rs KINDS"]),
    ("pages of a list without", &["src/cluster/pages.rs EMPTY_PAGES"]),
    ("resources of a version", &["src/cluster/kinds.rs RESOURCES"]),
    ("words of an API server", &["src/cluster/error.rs MOST", "src/cluster/call.rs CAUSES"]),
    ("a live object, and any", &["src/cluster/object_text.rs VALUE_LIMIT"]),
    (
        "answers of more than",
        &[
            "src/cluster/response_body.rs LARGE_ANSWER",
            "src/cluster/response_body.rs LARGE_AT_ONCE",
            "src/cluster/response_body.rs LARGE_WITHIN",
        ],
    ),
    ("texts of objects that watches", &["src/cluster/object_text.rs ROOM_KIBIBYTES"]),
    (
        "objects of more than",
        &[
            "src/daemon/shared/requests.rs LARGE_OBJECT",
            "src/daemon/shared/requests.rs LARGE_KIBIBYTES",
            "src/daemon/shared/requests.rs LARGE_WITHIN",
        ],
    ),
    (
        "values of the Secrets of one",
        &[
            "src/cluster/masking.rs VALUES",
            "src/cluster/masking.rs LARGE",
            "src/cluster/masking.rs FEW",
            "src/cluster/masking.rs WAITS",
        ],
    ),
    (
        "rollouts that seem to",
        &[
            "src/daemon/shared/requests.rs LOOKS_AT_ONCE",
            "src/daemon/shared/requests.rs SLOW_AT_ONCE",
            "src/daemon/shared/requests.rs SLOW",
        ],
    ),
    (
        "what waits, or what belay",
        &[
            "src/daemon/source/state/retries.rs WAITS",
            "src/daemon/source/state/retries.rs FEW",
            "src/daemon/source/state/retries.rs MAX_CONCURRENT_RETRIES",
        ],
    ),
    (
        "what the API server refused",
        &["src/daemon/source/state/retries.rs REFUSED", "src/daemon/source/state/retries.rs AFTER_A_HEAD"],
    ),
    ("an object that a ready API", &[]),
    ("an object that waits for a", &[]),
    ("an object that waits for something", &[]),
    ("an object that belay may", &[]),
    ("an object of which a ready", &["src/daemon/planning/plan_parts.rs PATIENCE"]),
    ("the answer of `/readyz`", &["src/cluster/readiness.rs PROBE_TIMEOUT"]),
    ("a changed kubeconfig", &["src/cluster/connection.rs LOOK"]),
    ("waiting for the cluster on Tab", &["src/cli/args/candidates.rs LIMIT"]),
    (
        "writes and dry runs under",
        &[
            "src/daemon/shared/requests.rs AT_ONCE",
            "src/daemon/shared/requests.rs OF_ONE_SOURCE",
            "src/daemon/shared/requests.rs SLOW",
            "src/daemon/shared/requests.rs SLOW_AT_ONCE",
        ],
    ),
    (
        "the first plan of a source",
        &["src/daemon/rollout/deferred_kinds.rs CROWD", "src/daemon/rollout/deferred_kinds.rs LONGEST"],
    ),
    (
        "a write that is answered",
        &[
            "src/cluster/retry.rs FIRST",
            "src/cluster/retry.rs LONGEST",
            "src/daemon/rollout/prune.rs STILL_THERE",
            "src/daemon/rollout/prune.rs GIVES_UP",
            "src/daemon/rollout/kinds/stuck_pods.rs AGAIN",
        ],
    ),
    ("kinds of which a watch", &["src/cluster/changes.rs TOO_MANY_WAITS"]),
    ("a watch that ends at once", &["src/cluster/retry.rs FIRST", "src/cluster/retry.rs LONGEST"]),
    (
        "what a watch tells of",
        &[
            "src/cluster/changes.rs OBJECTS",
            "src/cluster/items.rs ITEM_LIMIT",
            "src/cluster/object_text.rs NAME_BYTES",
            "src/cluster/changes.rs REVISION_BYTES",
            "src/cluster/lease.rs ANSWER_BYTES",
        ],
    ),
    ("a Job, or a hook that", &["crates/belay-core/src/rollout/judge/never_started.rs PATIENCE"]),
    ("the steps of a [canary]", &["crates/belay-core/src/rollout/canary/steps.rs STEPS"]),
    ("the locks of a [canary]", &["src/daemon/rollout/health_monitor/canary.rs LOCK_AGAIN"]),
    ("the looks of an analysis within a step", &["src/daemon/rollout/health_monitor/analysis.rs LOOKS_OF_A_STEP"]),
    ("a [bake time](bake-time.md)", &["crates/belay-core/src/rollout/judge/bake.rs LONGEST"]),
    ("the time between two looks", &["src/daemon/rollout/health_monitor/bake.rs LOOK_WHILE_BAKING"]),
    ("a rollout of which the watch", &["src/daemon/rollout/health_monitor/mod.rs UNHEARD"]),
    ("the first status of a", &["src/daemon/rollout/established.rs FIRST_STATUS"]),
    (
        "a look at the pods of",
        &[
            "src/daemon/rollout/health_monitor/mod.rs TELL_OF_PODS",
            "src/daemon/rollout/health_monitor/mod.rs TELL_OF_PODS_AGAIN",
            "src/daemon/source/state/unhealthy_workloads.rs LOOKS",
        ],
    ),
    (
        "the answer of the daemon",
        &[
            "src/daemon/publish/status_socket.rs ANSWER_TIMEOUT",
            "src/daemon/publish/status_socket.rs LARGEST_ANSWER",
            "src/daemon/publish/status_socket.rs WORD_TIMEOUT",
            "src/daemon/publish/status_socket.rs LONGEST_WORD",
        ],
    ),
    ("the history's file and", &["src/daemon/records/history_file.rs CHECK"]),
    ("other words about what is", &["src/daemon/source/state/retries.rs OTHER_WORDS"]),
    ("a change of the configuration", &["src/cli/commands/run/reload.rs CHECK"]),
    ("a look at the repository", &["src/history/standing.rs LATE"]),
    ("a workload that does not", &["src/cli/commands/status/wait_progress.rs STILL"]),
    ("a Lease, since it was", &["src/daemon/leadership/lease.rs LASTS", "src/daemon/leadership/lease.rs PERIOD"]),
    ("the Lease of somebody else", &["crates/belay-core/src/rollout/ownership/lease.rs LONGEST_HELD"]),
    (
        "Events of workloads that",
        &["src/daemon/publish/queued_events.rs FEW", "src/daemon/source/event_queue.rs WAITING"],
    ),
];

const EMBEDDED: &[Row] = &[
    ("open connections", &["crates/minicluster/src/listen.rs CONNECTIONS"]),
    ("a TLS handshake", &["crates/minicluster/src/listen.rs HANDSHAKE"]),
    (
        "the first line and",
        &[
            "crates/minicluster/src/listen.rs HEADER_BYTES",
            "crates/minicluster/src/listen.rs HEADERS",
            "crates/minicluster/src/listen.rs HEADER_TIMEOUT",
        ],
    ),
    (
        "a body |",
        &["crates/minicluster/src/api/call.rs BODY_LIMIT", "crates/minicluster/src/api/handler.rs BODY_TIMEOUT"],
    ),
    (
        "what `copy` makes",
        &["crates/kube-rules/src/patch/json.rs MOST_COPIED", "crates/kube-rules/src/patch/json.rs MOST_OPERATIONS"],
    ),
    (
        "what is said to be wrong",
        &[
            "crates/kube-rules/src/validate/errors.rs MOST_CAUSES",
            "crates/kube-rules/src/validate/errors.rs MOST_BYTES",
        ],
    ),
    (
        "warnings of an answer",
        &["crates/minicluster/src/api/reply.rs WARNINGS", "crates/minicluster/src/api/reply.rs WARNING"],
    ),
    ("an answer of which its", &["crates/minicluster/src/listen.rs UNREAD"]),
    ("changes that a watch has", &["crates/minicluster/src/api/store/resource_store.rs WAITING"]),
    ("changes that a watch can", &["crates/minicluster/src/api/store/resource_store.rs WINDOW"]),
];

/// Sentences with one number each, in the place of `{}`.
const SENTENCES: &[(&str, &str, &str)] = &[
    ("docs/limits.md", "A tool may take {}, 512 MiB", "src/render/child.rs time"),
    ("docs/limits.md", "60 s, {} of memory and", "src/render/child.rs memory"),
    ("docs/limits.md", "and {} of output", "src/render/child.rs output"),
    ("docs/limits.md", "is shown at most {} of a repository", "src/render/export.rs BYTES"),
    ("docs/limits.md", "of a repository in {} files", "src/render/export.rs ENTRIES"),
    ("docs/limits.md", "control group beside {} of its own", "src/render/slots.rs OWN_MEMORY"),
    ("docs/limits.md", "tools may take {} of a head", "src/daemon/repository/head_reading.rs OLDER"),
    ("docs/limits.md", "complete, the last {}.", "src/daemon/shared/finished_jobs.rs MAX_JOBS"),
    ("docs/limits.md", "without an answer for {} gives its room away", "src/daemon/shared/requests.rs SLOW"),
    ("docs/limits.md", "A push over https may have {}.", "src/git/transport/http.rs PUSH"),
    (
        "docs/limits.md",
        "tried again after {}, doubling to 10 minutes",
        "src/daemon/source/state/prune_search.rs SEARCH_AGAIN",
    ),
    ("docs/limits.md", "30 s, doubling to {}). No commit", "src/daemon/source/state/prune_search.rs SEARCH_AGAIN"),
    ("docs/limits.md", "next start, for {}, then four times", "src/git/mirror/attempt.rs RESTS"),
    ("docs/limits.md", "as long each time, at most {}, says so", "src/git/mirror/attempt.rs RESTS"),
    ("docs/security.md", "bounds on connections ({};", "src/web/mod.rs CONNECTIONS"),
    ("docs/security.md", "headers ({}, 5 s)", "src/web/mod.rs HEADER_BYTES"),
    ("docs/security.md", "(16 KiB, {}) and time", "src/web/mod.rs HEADER_TIMEOUT"),
    ("docs/security.md", "not made again for {} after the next", "src/notices/sender.rs IN_VAIN"),
    (
        "docs/security.md",
        "Keys of Secrets that are longer than {} bytes",
        "crates/belay-core/src/manifest/report.rs KEY",
    ),
];

/// A value of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Number(u64),
    Milliseconds(u64),
}

impl Quantity {
    /// Returns how the documents may write it.
    fn words(self) -> Vec<String> {
        match self {
            Quantity::Number(number) => {
                let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter();
                let fitting = units.filter(|(bits, _)| number > 0 && number.is_multiple_of(1 << bits));
                fitting
                    .map(|(bits, unit)| format!("{} {unit}", grouped(number >> bits)))
                    .chain([grouped(number)])
                    .collect()
            }
            Quantity::Milliseconds(time) => {
                let (minute, hour) = (60_000, 3_600_000);
                let mut words = vec![format!("{} s", time as f64 / 1000.0)];
                if time == minute {
                    words.push("1 minute".to_owned());
                } else if time.is_multiple_of(minute) {
                    words.push(format!("{} minutes", time / minute));
                }
                words.extend(time.is_multiple_of(hour).then(|| format!("{} h", time / hour)));
                words
            }
        }
    }
}

/// Writes `1,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// Returns the values of a constant, or of a field of a default: a back-off has two.
fn values(file: &str, name: &str) -> Vec<Quantity> {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_else(|_| panic!("{file}"));
    let expression = if name.starts_with(char::is_lowercase) {
        // The field of a type has a type behind it, that of a value a number.
        let field = format!("{name}: ");
        let found = text.match_indices(&field).map(|(at, _)| &text[at + field.len()..]);
        let mut found =
            found.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) || rest.starts_with("Duration::"));
        found.next().and_then(|rest| rest.split([',', '}', '\n']).next())
    } else {
        let begins = text.split_once(&format!("const {name}: ")).map(|(_, rest)| rest);
        begins.and_then(|rest| rest.split_once('=')?.1.split(';').next())
    };
    let expression = expression.unwrap_or_else(|| panic!("{file} has no {name}")).trim();
    let expression = expression.replace("LONGEST_WAIT", "Duration::from_hours(1)");
    let quantities: Vec<Quantity> = match expression.strip_prefix("Backoff::between(") {
        Some(both) => both.split("), ").map(evaluated).collect(),
        None => vec![evaluated(&expression)],
    };
    match name.ends_with("KIBIBYTES") {
        true => quantities
            .into_iter()
            .map(|value| if let Quantity::Number(value) = value { Quantity::Number(value << 10) } else { value })
            .collect(),
        false => quantities,
    }
}

fn evaluated(expression: &str) -> Quantity {
    let units = [("from_millis(", 1), ("from_secs(", 1000), ("from_mins(", 60_000), ("from_hours(", 3_600_000)];
    for (unit, milliseconds) in units {
        if let Some((_, rest)) = expression.split_once(unit) {
            return Quantity::Milliseconds(number(rest.split(')').next().unwrap()) * milliseconds);
        }
    }
    Quantity::Number(number(expression))
}

fn number(expression: &str) -> u64 {
    if let Some((value, bits)) = expression.split_once("<<") {
        return number(value) << number(bits);
    }
    let factors = expression.split('*').map(|factor| {
        let factor = factor.trim().replace('_', "");
        factor.parse::<u64>().unwrap_or_else(|_| panic!("{expression} is no number"))
    });
    factors.product()
}

/// Returns true when a text has these words, and no digit goes on before or behind them.
fn says(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let is_digit = |c: char| c.is_ascii_digit();
        let before = text[..at].trim_end_matches([',', '.']).ends_with(is_digit) && text[..at].ends_with([',', '.']);
        let behind = text[at + words.len()..].starts_with(is_digit)
            || text[at + words.len()..].starts_with(',') && text[at + words.len() + 1..].starts_with(is_digit);
        !before && !text[..at].ends_with(is_digit) && !behind
    })
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn limits_are_those_of_the_code() {
    let text = document("docs/limits.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")).filter(|row| !row.starts_with("subject |"));
    let known: Vec<&Row> = [MANIFESTS, GIT, RENDERING, CLUSTER, EMBEDDED].into_iter().flatten().collect();
    let mut wrong = Vec::new();
    let mut used = 0;
    for row in rows {
        let Some((_, constants)) = known.iter().find(|(begins, _)| row.starts_with(begins)) else {
            wrong.push(format!("no constant is named for: {row}"));
            continue;
        };
        used += 1;
        for constant in *constants {
            let (file, name) = constant.split_once(' ').unwrap();
            for value in values(file, name) {
                if !value.words().iter().any(|words| says(row, words)) {
                    wrong.push(format!("{constant} is {:?}, and the row says: {row}", value.words()));
                }
            }
        }
    }
    assert_eq!(used, known.len(), "each row of the table here is one of the document");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_about_limits_are_true() {
    let mut wrong = Vec::new();
    for (name, sentence, constant) in SENTENCES {
        let text = document(name).split_whitespace().collect::<Vec<_>>().join(" ");
        let (file, constant) = constant.split_once(' ').unwrap();
        let words: Vec<String> = values(file, constant).into_iter().flat_map(Quantity::words).collect();
        if !words.iter().any(|words| says(&text, &sentence.replace("{}", words))) {
            wrong.push(format!("{name}: {sentence:?} with {words:?} of {file}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! The cost of belay, measured and held against its promises: `cargo bench --bench daemon`.
//!
//! Each measurement runs in a process of its own, so that its memory is its own. `-- --quick` takes a tenth of the sizes,
//! for a look; `-- --only commit` one part. Parts that need a real API server are left out if `KUBEBUILDER_ASSETS` is
//! not set; measurements with processors apart need two of them, and `taskset`. Requests are counted on belay's own
//! line to the cluster; times are of a shared machine, so ratios count more.
//!
//! Seen on two shared cores: one of 10,000 files changes: 3 requests, 7 ms of planning, 225 ms from the push to the first
//! write. 1,000 rollouts under way: 206 ms from failed to taken back at the 99th percentile. 3,000 new Deployments on the real
//! API server: 1.01 requests for each; 0.98 and 0.82 times as long as the bare client where the API server has a core of its
//! own (1.2 is promised); if they share both cores, 1.04 to 1.44 times in eighteen pairs, mostly below 1.2, since belay
//! needs 1.9 s of the processor, the bare client 0.6 s, and the API server ten for either; 96 MiB. 10,000 mixed objects:
//! 142 MiB. Idle with 3,000: one request a minute, no time of the processor that Linux counts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    missing_docs,
    reason = "a program for developers"
)]
#![allow(clippy::disallowed_methods, reason = "real time is what is measured")]

#[path = "../tests/support/mod.rs"]
mod world;

#[path = "daemon/applies.rs"]
mod applies;
#[path = "daemon/line.rs"]
mod line;
#[path = "daemon/parts.rs"]
mod parts;
#[path = "daemon/process.rs"]
mod process;
#[path = "daemon/said.rs"]
mod said;

use std::collections::BTreeMap;
use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["--part", part, size] => parts::measure(part, size.parse().unwrap()),
        ["--fill", name, count] => parts::fill_for_another(name, count.parse().unwrap()),
        [] => all(1, None),
        ["--quick"] => all(10, None),
        ["--only", part] => all(1, Some(part)),
        ["--quick", "--only", part] => all(10, Some(part)),
        other => panic!("not understood: {other:?}; known are --quick and --only commit|rollback|first|mixed|idle"),
    }
}

/// The results of a part of the measurements, by name.
type Measured = BTreeMap<String, f64>;

/// The table of promises, and whether all were kept.
struct Promises(bool);

impl Promises {
    fn at_most(&mut self, what: &str, is: f64, limit: f64, unit: &str) {
        let fine = is <= limit;
        self.0 &= fine;
        println!("{what:<78} {is:>9.2} {unit:<9} (at most {limit}) {}", if fine { "" } else { " MISSED" });
    }
}

fn all(divisor: usize, only: Option<&str>) {
    let mut promises = Promises(true);
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    if wanted("commit") {
        commit(&mut promises, divisor);
    }
    if wanted("rollback") {
        let count = 1000 / divisor;
        let measured = part("rollback", count);
        let what = format!("{count} rollouts under way: from failed to taken back, 99th percentile");
        promises.at_most(&what, measured["p99_ms"], 500.0, "ms");
        println!("{:<78} {:>9.2} ms", format!("{count} rollouts under way: the median"), measured["median_ms"]);
    }
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        println!("KUBEBUILDER_ASSETS is not set: nothing was measured on the real API server");
    } else {
        if wanted("first") {
            first(&mut promises, 3000 / divisor);
        }
        if wanted("mixed") {
            let count = 10_000 / divisor;
            let measured = part("mixed", count);
            promises.at_most(&format!("{count} mixed objects: memory"), measured["mebibytes"], 150.0, "MiB");
        }
        if wanted("idle") {
            let count = 3000 / divisor;
            let measured = part("idle", count);
            promises.at_most(
                &format!("idle with {count} workloads: requests, Lease left out"),
                measured["requests"],
                2.0,
                "a minute",
            );
            promises.at_most(&format!("idle with {count} workloads: CPU"), measured["cpu_ms"], 100.0, "ms a min.");
            let what = |text: &str| format!("{} changes of pods' status: {text}", measured["changes"]);
            promises.at_most(&what("requests, Lease left out"), measured["requests_of_changes"], 2.0, "a minute");
            promises.at_most(&what("heard of them"), measured["bytes_of_changes"] / 1024.0, 1.0, "KiB");
        }
    }
    std::process::exit(i32::from(!promises.0));
}

/// A commit that changes one file among many, and among few: what grows with the others?
fn commit(promises: &mut Promises, divisor: usize) {
    let (many, few) = (10_000 / divisor, 100);
    let large = part("commit", many);
    let small = part("commit", few);
    let what = |text: &str| format!("one of {many} files changes: {text}");
    promises.at_most(&what("files read"), large["files"], 1.0, "");
    promises.at_most(&what("requests, events left out"), large["requests"], 4.0, "");
    promises.at_most(&what("lists"), large["lists"], 0.0, "");
    promises.at_most(&what("from the push to the first request"), large["first_request_ms"], 1000.0, "ms");
    promises.at_most(&what("from the push to the first write"), large["first_write_ms"], 1000.0, "ms");
    promises.at_most(&what("belay's own time in planning"), large["planning_ms"], 50.0, "ms");
    for measured in ["requests", "first_request_ms", "first_write_ms", "planning_ms"] {
        println!(
            "  {measured:<18} {many:>6} files: {:>8.2}   {few:>4} files: {:>8.2}",
            large[measured], small[measured]
        );
    }
}

/// The first apply, beside a bare client that sends the same applies. Three times in turn; the medians count, since a
/// shared machine makes either of them slower at times. The promise is about a client that does not take its processor
/// time from the API server, as in real life; beside it stands the result if both share the processors.
fn first(promises: &mut Promises, count: usize) {
    let apart = beside_a_bare_client(count, "each side on processors of its own", ["bare-apart", "first-apart"]);
    let what = format!("{count} Deployments: belay beside the bare client, each side on its own");
    promises.at_most(&what, apart.ratio, 1.2, "x");
    promises.at_most(&format!("{count} Deployments: memory"), apart.mebibytes, 100.0, "MiB");
    let shared = beside_a_bare_client(count, "all on the same processors", ["bare", "first"]);
    println!("{:<78} {:>9.2} x", format!("{count} Deployments: the same, all on the same processors"), shared.ratio);
}

/// The result of belay's first apply.
struct First {
    ratio: f64,
    mebibytes: f64,
}

fn beside_a_bare_client(count: usize, how: &str, parts: [&str; 2]) -> First {
    let rounds: Vec<[Measured; 2]> = (0..3).map(|_| parts.map(|name| part(name, count))).collect();
    let median = |of: &dyn Fn(&[Measured; 2]) -> f64| parts::median(rounds.iter().map(of).collect());
    let bare = |name: &str| median(&|round| round[0][name]);
    let belay = |name: &str| median(&|round| round[1][name]);
    let say = |what: &str, is: String| println!("{:<78} {is}", format!("{count} Deployments: {what}"));
    println!("{count} Deployments, {how}:");
    say("a bare client's applies", format!("{:>9.2} s", bare("seconds")));
    say("belay, from its start to the last apply", format!("{:>9.2} s", belay("seconds")));
    say("belay, from its start to the first apply", format!("{:>9.2} s", belay("before")));
    say("belay, until all are complete and recorded", format!("{:>9.2} s", belay("settled")));
    say("belay's requests for each, events left out", format!("{:>9.2}", belay("requests") / count as f64));
    for (name, what) in [("cpu_ms", "its own"), ("server_ms", "of the API server"), ("etcd_ms", "of etcd")] {
        let used = format!("{:.2} s beside {:.2} s", belay(name) / 1000.0, bare(name) / 1000.0);
        say(&format!("processor time until the last apply, {what}"), used);
    }
    First { ratio: belay("seconds") / bare("seconds"), mebibytes: belay("mebibytes") }
}

/// Measures a part in a process of its own.
fn part(part: &str, size: usize) -> Measured {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).args(["--part", part, &size.to_string()]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let said = out.lines().filter_map(|line| line.strip_prefix("= "));
    let measured: Measured = said
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect();
    assert!(output.status.success(), "{part} {size}: {out}{}", String::from_utf8_lossy(&output.stderr));
    measured
}

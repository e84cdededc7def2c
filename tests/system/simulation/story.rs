//! A run, told for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::findings::{hold, template};
use super::run::Run;
use super::scenario::Scenario;

/// Returns the scenario: what there is, and what happens.
pub fn scenario(scenario: &Scenario) -> String {
    let mut text = format!("{:?}\n", scenario.style);
    // Writing to a String can't fail.
    for app in &scenario.apps {
        let _ = writeln!(text, "  {app:?}");
    }
    for timed in &scenario.events {
        let _ =
            writeln!(text, "  {:>9.3} s  {:?}", timed.at.as_secs_f64() + super::play::LEAD.as_secs_f64(), timed.what);
    }
    text
}

/// Returns everything that happened, by time: pushes, what people did, what belay wrote and logged.
pub fn whole(run: &Run) -> String {
    let mut lines: BTreeMap<(u64, usize), String> = BTreeMap::new();
    let mut tell = |at: u64, line: String| {
        let number = lines.len();
        lines.insert((at, number), line);
    };
    for pushed in &run.pushed {
        let subject = run.commits.get(&pushed.commit).map_or("", |told| &told.subject);
        tell(pushed.at, format!("PUSH     {} {subject}", &pushed.commit[..7]));
    }
    for handled in &run.hands {
        tell(handled.at, format!("PERSON   {:?} {} {}", handled.hand, handled.key.0, handled.key.1));
    }
    for at in &run.restores {
        tell(*at, "RESTORED etcd goes back to its snapshot".to_owned());
    }
    for (from, to) in &run.full {
        tell(*from, "DISK     is full".to_owned());
        tell(*to, "DISK     has room again".to_owned());
    }
    for (number, life) in run.lives.iter().enumerate() {
        tell(
            life.from,
            format!("START    belay {number}, state {}{}", life.state, if life.twin { ", a twin" } else { "" }),
        );
        if let Some(to) = life.to {
            tell(to, format!("END      belay {number}"));
        }
    }
    for exchange in run.wire.iter().filter(|exchange| exchange.is_write()) {
        let (sent, held) = (template(&exchange.body), hold(&exchange.body).is_some());
        let held = if held { ", held" } else { "" };
        let end = match (exchange.code, exchange.given_up) {
            (Some(code), _) => code.to_string(),
            (None, Some(at)) => format!("given up at {at}"),
            _ => "no answer".to_owned(),
        };
        let path = exchange.path.split('?').next().unwrap_or_default();
        let what = format!("{} {path} {:?}{held}", exchange.method, sent.unwrap_or_default());
        tell(exchange.begun, format!("WRITE    belay {}: {what}: {:?}, {end}", exchange.process, exchange.fortune));
    }
    for (at, line) in &run.log {
        tell(*at, format!("LOG     {line}"));
    }
    lines.iter().map(|((at, _), line)| format!("{:>9.3} s  {line}\n", *at as f64 / 1000.0)).collect()
}

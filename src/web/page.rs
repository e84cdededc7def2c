//! The page for people: what is held, what is under way, what is in the way. Plain HTML without scripts.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::daemon::{SourceStatus, Status};
use belay_core::rollout::{CommitId, ObjectState};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
                     table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3em .8em .3em 0;vertical-align:top;\
                     border-bottom:1px solid #ddd}.held{background:#fff3cd;padding:.6em 1em;border-left:4px solid #b58900}\
                     .trouble{background:#fdecea;padding:.6em 1em;border-left:4px solid #b3261e}code{font-family:ui-monospace,monospace}\
                     @media(prefers-color-scheme:dark){body{color:#ddd;background:#111}.held{background:#3a3000}.trouble{background:#3b1512}\
                     th,td{border-color:#333}}";

/// The page.
pub(super) fn page(status: &Status, now: Timestamp) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"10\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>belay</title><style>{STYLE}</style></head><body>\n\
         <h1>belay</h1>\n"
    );
    for (name, of) in &status.sources {
        source(&mut html, name, of);
    }
    // Writing to a String can't fail.
    let _ = write!(html, "<p><small>{}, belay {}</small></p>\n</body></html>\n", time(now), env!("CARGO_PKG_VERSION"));
    html
}

fn source(html: &mut String, name: &str, of: &SourceStatus) {
    let _ = writeln!(
        html,
        "<h2>{}: {}</h2>\n<p>at <code>{}</code>, {} objects ({}); the repository was last reached {}</p>",
        escape(name),
        of.state(),
        short(of.planned.as_ref()),
        of.objects,
        of.counts(),
        of.looked.map_or_else(|| "never yet".to_owned(), time),
    );
    if let Some(message) = &of.waits {
        let _ = writeln!(html, "<p class=\"trouble\">{}</p>", escape(message));
    }
    for (place, message) in &of.trouble {
        let _ = writeln!(html, "<p class=\"trouble\"><b>{}</b>: {}</p>", escape(place), escape(message));
    }
    ended(html, of);
    for (key, held) in &of.held {
        let _ = writeln!(
            html,
            "<p class=\"held\"><b>{}</b>: Git and the cluster differ, by rollback, since {}: commit <code>{}</code> is held, \
             because {}</p>",
            escape(&key.to_string()),
            time(held.since),
            short(Some(&held.commit)),
            escape(&held.reason),
        );
    }
    if of.under_way.is_empty() {
        return;
    }
    html.push_str("<table><tr><th>object</th><th>commit</th><th>state</th><th>pods</th><th></th></tr>\n");
    for (key, way) in &of.under_way {
        let world = way.in_the_way.as_ref().map(|reason| format!("; in the way: {reason}")).unwrap_or_default();
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{} of {}</td><td>{}</td></tr>",
            escape(&key.to_string()),
            short(Some(&way.commit)),
            way.outcome,
            way.counters.available,
            way.counters.desired,
            escape(&format!("{}{world}", way.message)),
        );
    }
    html.push_str("</table>\n");
}

/// What is not as the head says, and of which nothing more becomes by itself.
fn ended(html: &mut String, of: &SourceStatus) {
    for (key, one) in &of.ended {
        let state = of.state_of(key);
        // What is held is told with its hold.
        if state == ObjectState::Held && of.held.contains_key(key) || of.under_way.contains_key(key) {
            continue;
        }
        let class = if state.is_wrong() { "trouble" } else { "held" };
        let reason = one.reason.as_ref().map(|reason| format!(": {}", escape(&reason.message))).unwrap_or_default();
        let _ = writeln!(
            html,
            "<p class=\"{class}\"><b>{}</b>: {state} at <code>{}</code>{reason}</p>",
            escape(&key.to_string()),
            short(Some(&one.commit)),
        );
    }
}

fn short(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "nothing yet".to_owned(), |commit| commit.short().to_owned())
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_elsewhere_is_escaped() {
        let mut source = SourceStatus::default();
        source.trouble.insert("<script>".to_owned(), "\"a\" & b".to_owned());
        let status = Status { sources: [("shop".to_owned(), source)].into() };
        let html = page(&status, Timestamp::UNIX_EPOCH);
        assert!(html.contains("<b>&lt;script&gt;</b>: &quot;a&quot; &amp; b"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }
}

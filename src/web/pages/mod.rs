//! The pages for people: server-rendered, whole without scripts, from the same answers as the JSON.

mod canary_steps;
mod commit;
mod components;
mod daemon;
mod delivery;
mod headline;
mod known_commits;
mod next_step;
mod overview;
mod overview_rows;
mod related_objects;
mod timeline;
mod workload;
mod workload_row;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use belay_core::manifest::is_hidden;
use http::StatusCode;
use jiff::Timestamp;

pub(super) use commit::commit;
use components::{Lasted, When};
pub(super) use daemon::daemon;
pub(super) use delivery::delivery;
use headline::StateCount;
pub(super) use overview::overview;
pub(super) use timeline::timeline;
pub(super) use workload::workload;

use super::problem::Problem;
use super::{Room, Shown};

/// The frame around every page.
struct Frame {
    now: Timestamp,
    /// The worst count, with which the title begins.
    headline: StateCount,
    /// The page of the navigation that this one belongs to.
    here: &'static str,
}

impl Frame {
    fn of(shown: &Shown, here: &'static str) -> Frame {
        let headline = headline::worst(&headline::of_status(&shown.status.borrow()));
        Frame { now: shown.clock.now(), headline, here }
    }

    fn pages(&self) -> [(&'static str, &'static str); 4] {
        [("/", "Overview"), ("/timeline", "Timeline"), ("/delivery", "Delivery metrics"), ("/daemon", "Daemon")]
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn ago(&self, then: &Timestamp) -> When {
        When::ago(*then, self.now)
    }

    fn age(&self, since: &Timestamp) -> Lasted {
        Lasted(self.now.duration_since(*since))
    }

    fn until(&self, then: &Timestamp) -> When {
        When::until(*then, self.now)
    }
}

/// Writes a page. Characters that are invisible, or that turn a line around, are shown as unprintable.
fn write(code: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => {
            let shown = |c: char| if is_hidden(c) && !['\n', '\t'].contains(&c) { '\u{fffd}' } else { c };
            let html: String = html.chars().map(shown).collect();
            (code, Html(html)).into_response()
        }
        Err(error) => Problem::of_template(&error).into_response(),
    }
}

/// Returns a page, or the one that says why there is none.
fn respond(shown: &Shown, page: Result<impl Template, Problem>) -> Response {
    match page {
        Ok(page) => write(StatusCode::OK, &page),
        Err(problem) => refuse(shown, &problem),
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: Frame,
    heading: &'static str,
    message: String,
}

/// Says why there is no page.
fn refuse(shown: &Shown, problem: &Problem) -> Response {
    let heading = match problem {
        Problem::Unclear(_) => "That is not clear",
        Problem::Nothing(_) => "There is no such page",
        Problem::Unavailable(_) => "This can't be told now",
    };
    let page = ProblemPage { frame: Frame::of(shown, ""), heading, message: problem.message().to_owned() };
    write(problem.code(), &page)
}

/// Returns the page for an address that leads nowhere.
pub(super) fn nothing(room: &Room) -> Response {
    refuse(&room.shown, &Problem::Nothing("The address leads nowhere here.".to_owned()))
}

/// Returns a part of an address, with characters that have a meaning there escaped.
fn in_address(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

//! The delivery metrics: deployment frequency, lead time, change failure rate, time to restore; by source and by month.

use std::fmt::Write as _;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::super::Room;
use super::super::problem::Problem;
use super::super::query::QueryParams;
use super::components::Lasted;
use super::{Frame, respond};
use crate::history::query::answers::{failure_rate, per_day};
use crate::history::{By, Stats, StatsQuery};

/// The period of the table.
const RECENT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The period of the charts.
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The parameters of the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct DeliveryAsked {
    source: String,
}

#[derive(Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    frame: Frame,
    asked: DeliveryAsked,
    names: Vec<String>,
    lines: Vec<MetricsLine>,
    months: Vec<MetricsLine>,
    charts: Vec<Chart>,
    /// The time before which some of the last year is forgotten.
    kept_since: Option<String>,
}

/// The four metrics of a source or month.
struct MetricsLine {
    of: String,
    rollouts: u64,
    per_day: String,
    lead_time: String,
    failed: String,
    restored: String,
}

struct Chart {
    title: &'static str,
    svg: String,
}

pub(in crate::web) async fn delivery(
    State(room): State<Room>,
    QueryParams(asked): QueryParams<DeliveryAsked>,
) -> Response {
    respond(&room.shown, page(&room, asked).await)
}

async fn page(room: &Room, asked: DeliveryAsked) -> Result<DeliveryPage, Problem> {
    let now = room.shown.clock.now();
    let source = Some(asked.source.clone()).filter(|source| !source.is_empty());
    let query = |span: SignedDuration, by: By| StatsQuery {
        source: source.clone(),
        since: now.checked_sub(span).unwrap_or(Timestamp::MIN),
        until: now,
        by,
    };
    let (recent, year) = (query(RECENT, By::Source), query(YEAR, By::Month));
    let read = room
        .history
        .ask(move |history| Ok((history.stats(&recent)?, history.stats(&year)?, history.kept_since(year.since)?)));
    let (sources, months, kept_since) = read.await?;
    Ok(DeliveryPage {
        frame: Frame::of(&room.shown, "/delivery"),
        asked,
        names: room.shown.status.borrow().sources.keys().cloned().collect(),
        lines: sources.iter().map(|stats| MetricsLine::of(stats, RECENT)).collect(),
        charts: charts(&months),
        kept_since: kept_since.map(|since| since.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
        months: months.iter().map(|stats| MetricsLine::of(stats, SignedDuration::from_hours(30 * 24))).collect(),
    })
}

impl MetricsLine {
    fn of(stats: &Stats, time: SignedDuration) -> MetricsLine {
        let lasted =
            |time: Option<SignedDuration>| time.map_or_else(|| "–".to_owned(), |time| Lasted(time).to_string());
        MetricsLine {
            of: month_name(&stats.of),
            rollouts: stats.deployments,
            per_day: format!("{:.1}", per_day(stats, time)),
            lead_time: lasted(stats.lead_time.map(|spread| spread.median)),
            failed: format!("{:.0} %", 100.0 * failure_rate(stats)),
            restored: lasted(stats.time_to_restore.map(|spread| spread.median)),
        }
    }
}

fn charts(months: &[Stats]) -> Vec<Chart> {
    type Metric = (&'static str, fn(&Stats) -> Option<(f64, String)>);
    let metrics: [Metric; 4] = [
        ("Rollouts a month", |stats| {
            #[expect(clippy::cast_precision_loss, reason = "a chart; nobody has 2^52 rollouts")]
            let count = stats.deployments as f64;
            Some((count, stats.deployments.to_string()))
        }),
        ("Lead time, from commit to complete (half are faster)", |stats| {
            stats.lead_time.map(|spread| (spread.median.as_secs_f64(), Lasted(spread.median).to_string()))
        }),
        ("Change failure rate", |stats| {
            let rate = 100.0 * failure_rate(stats);
            Some((rate, format!("{rate:.0} %")))
        }),
        ("Time to restore (half are faster)", |stats| {
            stats.time_to_restore.map(|spread| (spread.median.as_secs_f64(), Lasted(spread.median).to_string()))
        }),
    ];
    let chart = |(title, metric): Metric| {
        let bars: Vec<(String, Option<(f64, String)>)> =
            months.iter().map(|stats| (month_name(&stats.of), metric(stats))).collect();
        // A chart without a bar says nothing.
        bars.iter().any(|(_, value)| value.is_some()).then(|| Chart { title, svg: bars_of(title, &bars) })
    };
    metrics.into_iter().filter_map(chart).collect()
}

/// Returns a month by its name: `Nov 2026`. A text that is no month is returned as it is.
fn month_name(month: &str) -> String {
    let first: Option<Date> = format!("{month}-01").parse().ok();
    first.map_or_else(|| month.to_owned(), |first| first.strftime("%b %Y").to_string())
}

const WIDTH: f64 = 58.0;
const HEIGHT: f64 = 120.0;

/// Bars with their values above and their months below. They hold this program's words, numbers and months, and nothing
/// else.
fn bars_of(title: &str, bars: &[(String, Option<(f64, String)>)]) -> String {
    let most =
        bars.iter().filter_map(|(_, value)| Some(value.as_ref()?.0)).fold(0.0_f64, f64::max).max(f64::MIN_POSITIVE);
    let told: Vec<String> = bars
        .iter()
        .map(|(month, value)| format!("{month}: {}", value.as_ref().map_or("none", |(_, said)| said.as_str())))
        .collect();
    let width = WIDTH * f64::from(u32::try_from(bars.len().max(6)).unwrap_or(u32::MAX));
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width} 165\" role=\"img\" aria-label=\"{title}. {}\">",
        told.join(", ")
    );
    // Writing to a String can't fail.
    for (index, (month, value)) in bars.iter().enumerate() {
        let left = WIDTH * f64::from(u32::try_from(index).unwrap_or(u32::MAX));
        let middle = left + WIDTH / 2.0;
        if let Some((value, said)) = value {
            let height = (value / most * HEIGHT).max(1.0);
            let top = 20.0 + HEIGHT - height;
            let _ = write!(svg, "<rect x=\"{}\" y=\"{top:.1}\" width=\"46\" height=\"{height:.1}\"/>", left + 6.0);
            let _ = write!(svg, "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{said}</text>", top - 4.0);
        }
        let _ = write!(svg, "<text x=\"{middle}\" y=\"158\" text-anchor=\"middle\">{month}</text>");
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_tells_its_values_also_in_words() {
        let bars = [("2026-01", Some((10.0, "10".to_owned()))), ("2026-02", None)];
        let svg = bars_of("Rollouts", &bars.map(|(month, value)| (month_name(month), value)));
        assert!(svg.contains("aria-label=\"Rollouts. Jan 2026: 10, Feb 2026: none\""), "{svg}");
        assert_eq!(month_name("never"), "never");
        assert!(svg.contains("height=\"120.0\"") && svg.matches("<rect").count() == 1, "{svg}");
        assert!(bars_of("Nothing", &[]).ends_with("</svg>"));
    }
}

//! `belay history --stats`: how often is deployed, how long that takes, how often it fails, how soon that is mended.

use jiff::{SignedDuration, Timestamp};

use super::answer::{LineAnswer, SpreadAnswer, StatsAnswer};
use super::output::{Format, Table, duration, say, say_value};
use crate::history::{By, History, Spread, Stats, StatsQuery};

/// What one line of numbers is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Each {
    /// A source.
    #[default]
    Source,
    /// A workload.
    Workload,
    /// A month, in UTC.
    Month,
}

/// Prints the numbers of one source or of all, from `since` until `now`.
pub(super) fn print(
    history: &History,
    source: Option<String>,
    since: Timestamp,
    now: Timestamp,
    each: Each,
    format: Format,
) -> anyhow::Result<()> {
    let by = match each {
        Each::Source => By::Source,
        Each::Workload => By::Workload,
        Each::Month => By::Month,
    };
    let all = history.stats(&StatsQuery { source, since, until: now, by })?;
    let time = now.duration_since(since);
    match format {
        Format::Json | Format::Yaml => {
            let stats = all.iter().map(|line| answer(line, time)).collect();
            say_value(&StatsAnswer { since, until: now, stats }, format)?;
        }
        Format::Name => all.iter().for_each(|line| say(&line.of)),
        Format::Table | Format::Wide if all.is_empty() => say("No rollout ended in this time."),
        Format::Table | Format::Wide => table(&all, time, each, format).say(),
    }
    Ok(())
}

fn table(all: &[Stats], time: SignedDuration, each: Each, format: Format) -> Table {
    let of = match each {
        Each::Source => "SOURCE",
        Each::Workload => "WORKLOAD",
        Each::Month => "MONTH",
    };
    let mut headings = vec![of, "ROLLOUTS", "PER DAY", "LEAD TIME", "FAILED", "RESTORED AFTER"];
    if format == Format::Wide {
        headings.extend(["LEAD TIME OF 9 IN 10", "LONGEST LEAD TIME", "LONGEST OUTAGE"]);
    }
    let mut table = Table::new(&headings);
    for line in all {
        let time_of = |spread: Option<Spread>, which: fn(&Spread) -> SignedDuration| {
            spread.map_or_else(|| "-".to_owned(), |spread| duration(which(&spread)))
        };
        let mut row = vec![
            line.of.clone().into(),
            line.deployments.to_string().into(),
            // A month has a time of its own.
            if each == Each::Month { "-".into() } else { format!("{:.1}", per_day(line, time)).into() },
            time_of(line.lead_time, |spread| spread.median).into(),
            format!("{:.0} %", 100.0 * failure_rate(line)).into(),
            time_of(line.time_to_restore, |spread| spread.median).into(),
        ];
        if format == Format::Wide {
            row.push(time_of(line.lead_time, |spread| spread.ninth_tenth).into());
            row.push(time_of(line.lead_time, |spread| spread.longest).into());
            row.push(time_of(line.time_to_restore, |spread| spread.longest).into());
        }
        table.row(row);
    }
    table
}

fn answer(line: &Stats, time: SignedDuration) -> LineAnswer {
    let spread = |spread: Option<Spread>| {
        spread.map(|spread| SpreadAnswer {
            count: spread.count,
            median_seconds: spread.median.as_secs_f64(),
            ninth_tenth_seconds: spread.ninth_tenth.as_secs_f64(),
            longest_seconds: spread.longest.as_secs_f64(),
        })
    };
    LineAnswer {
        of: line.of.clone(),
        rollouts: line.deployments,
        failures: line.failures,
        per_day: per_day(line, time),
        change_failure_rate: failure_rate(line),
        lead_time: spread(line.lead_time),
        time_to_restore: spread(line.time_to_restore),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people; nobody has 2^52 rollouts")]
fn per_day(line: &Stats, time: SignedDuration) -> f64 {
    line.deployments as f64 / (time.as_secs_f64() / 86_400.0).max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people; nobody has 2^52 rollouts")]
fn failure_rate(line: &Stats) -> f64 {
    if line.deployments == 0 { 0.0 } else { line.failures as f64 / line.deployments as f64 }
}

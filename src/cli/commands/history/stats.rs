//! `belay history --stats`: how often is deployed, how long that takes, how often it fails, how soon that is mended.

use jiff::{SignedDuration, Timestamp};

use crate::cli::output::answer::{LineAnswer, StatsAnswer};
use crate::cli::output::table::Table;
use crate::cli::output::{Format, duration, say, say_value};
use crate::history::query::answers::{failure_rate, per_day};
use crate::history::{By, History, Spread, Stats, StatsQuery};

/// The subject of one line of numbers.
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

/// Prints the numbers of one source or of all, of the rollouts from `since` until `until`.
pub(in crate::cli) fn print(
    history: &History,
    source: Option<String>,
    (since, until): (Timestamp, Timestamp),
    each: Each,
    format: Format,
) -> anyhow::Result<()> {
    let by = match each {
        Each::Source => By::Source,
        Each::Workload => By::Workload,
        Each::Month => By::Month,
    };
    let all = history.stats(&StatsQuery { source, since, until, by })?;
    let kept_since = history.kept_since(since)?;
    let time = until.duration_since(since);
    match format {
        Format::Json | Format::Yaml => {
            let stats = all.iter().map(|line| LineAnswer::of(line, time)).collect();
            say_value(&StatsAnswer { since, until, kept_since, stats }, format)?;
        }
        Format::Name => all.iter().for_each(|line| say(&line.of)),
        Format::Table | Format::Wide if all.is_empty() => say("No rollout ended in this time."),
        Format::Table | Format::Wide => table(&all, time, each, format).say(),
    }
    if let (Some(kept_since), Format::Table | Format::Wide) = (kept_since, format) {
        say(format!("Not all records from before {kept_since:.0} are kept; what is forgotten is not counted."));
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
        headings.extend(["CAUSES", "LEAD TIME OF 9 IN 10", "LONGEST LEAD TIME", "LONGEST OUTAGE"]);
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
            let causes: Vec<String> =
                line.causes.iter().map(|(cause, count)| format!("{count} {}", cause.word())).collect();
            row.push(if causes.is_empty() { "-".into() } else { causes.join(", ").into() });
            row.push(time_of(line.lead_time, |spread| spread.ninth_tenth).into());
            row.push(time_of(line.lead_time, |spread| spread.longest).into());
            row.push(time_of(line.time_to_restore, |spread| spread.longest).into());
        }
        table.row(row);
    }
    table
}

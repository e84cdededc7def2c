//! `belay history --stats`: how often is deployed, how long that takes, how often it fails, how soon that is mended.

use jiff::SignedDuration;

use crate::cli::output::answer::{LineAnswer, StatsAnswer};
use crate::cli::output::table::Table;
use crate::cli::output::{Format, duration, say, say_value};
use crate::history::By;
use crate::history::query::answers::SpreadAnswer;

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

impl From<Each> for By {
    fn from(each: Each) -> By {
        match each {
            Each::Source => By::Source,
            Each::Workload => By::Workload,
            Each::Month => By::Month,
        }
    }
}

/// Prints the figures of a period.
pub(in crate::cli) fn print(answer: &StatsAnswer, each: Each, format: Format) -> anyhow::Result<()> {
    let StatsAnswer { since: _, until: _, kept_since, stats } = answer;
    match format {
        Format::Json | Format::Yaml => say_value(answer, format)?,
        Format::Name => stats.iter().for_each(|line| say(&line.of)),
        Format::Table | Format::Wide if stats.is_empty() => say("No rollout ended in this time."),
        Format::Table | Format::Wide => table(stats, each, format).say(),
    }
    if let (Some(kept_since), Format::Table | Format::Wide) = (kept_since, format) {
        say(format!("Not all records from before {kept_since:.0} are kept; what is forgotten is not counted."));
    }
    Ok(())
}

fn table(all: &[LineAnswer], each: Each, format: Format) -> Table {
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
        let time_of = |spread: &Option<SpreadAnswer>, seconds: fn(&SpreadAnswer) -> f64| {
            let time = spread.as_ref().map(|spread| SignedDuration::try_from_secs_f64(seconds(spread)));
            time.and_then(Result::ok).map_or_else(|| "-".to_owned(), duration)
        };
        let mut row = vec![
            line.of.clone().into(),
            line.rollouts.to_string().into(),
            // A month has a time of its own.
            if each == Each::Month { "-".into() } else { format!("{:.1}", line.per_day).into() },
            time_of(&line.lead_time, |spread| spread.median_seconds).into(),
            format!("{:.0} %", 100.0 * line.change_failure_rate).into(),
            time_of(&line.time_to_restore, |spread| spread.median_seconds).into(),
        ];
        if format == Format::Wide {
            let causes: Vec<String> =
                line.causes.iter().map(|(cause, count)| format!("{count} {}", cause.word())).collect();
            row.push(if causes.is_empty() { "-".into() } else { causes.join(", ").into() });
            row.push(time_of(&line.lead_time, |spread| spread.ninth_tenth_seconds).into());
            row.push(time_of(&line.lead_time, |spread| spread.longest_seconds).into());
            row.push(time_of(&line.time_to_restore, |spread| spread.longest_seconds).into());
        }
        table.row(row);
    }
    table
}

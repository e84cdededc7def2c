//! The analyses of a record: their last verdicts, their looks, and their verdicts computed again.

use std::collections::BTreeMap;

use crate::cli::exit::Exit;
use crate::cli::output::{plain, say};
use crate::history::History;
use belay_core::rollout::Record;
use belay_core::rollout::analysis::{Measurement, verify as verified};

/// Prints the last verdict of each analysis, and how often it has looked.
pub(super) fn last_verdicts(measurements: &[Measurement]) {
    let mut last: BTreeMap<&str, (&Measurement, usize)> = BTreeMap::new();
    for look in measurements {
        let looks = last.get(look.analysis.as_str()).map_or(0, |(_, looks)| *looks);
        last.insert(&look.analysis, (look, looks + 1));
    }
    for (name, (look, looks)) in last {
        let line = format!("  analysis: {name}: {} ({}), at look {looks}", look.verdict.word(), look.numbers());
        say(plain(&line));
    }
}

/// Prints each look.
pub(super) fn looks(measurements: &[Measurement]) {
    if !measurements.is_empty() {
        say("  measurements:");
    }
    for look in measurements {
        say(plain(&format!("    {:.3}  {}: {} ({})", look.at, look.analysis, look.verdict.word(), look.numbers())));
    }
}

/// Computes the verdicts of all analyses again, and prints whether they are the recorded ones.
pub(super) fn verify(history: &History, records: &[Record]) -> anyhow::Result<Exit> {
    let (mut analyses, mut differs) = (0, false);
    for record in records {
        for analysis in verified(&history.measurements(record.id)?) {
            analyses += 1;
            let (name, looks) = (&analysis.name, analysis.looks);
            match &analysis.differs {
                None => say(plain(&format!("{}: analysis {name}: {looks} looks, each as recorded", record.object))),
                Some(look) => {
                    differs = true;
                    let again = format!("{} ({})", look.verdict.word(), look.numbers());
                    say(plain(&format!("{}: analysis {name}: at {} it is {again}", record.object, look.at)));
                }
            }
            analysis.failure.iter().for_each(|failure| say(plain(&format!("  {failure}"))));
        }
    }
    if analyses == 0 {
        say("No analysis has measured this commit.");
    }
    Ok(if differs { Exit::No } else { Exit::Done })
}

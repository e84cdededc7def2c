//! The analyses of a record: their last verdicts, their looks, and their verdicts computed again.

use crate::cli::exit::Exit;
use crate::cli::output::{plain, say};
use crate::history::History;
use belay_core::rollout::Record;
use belay_core::rollout::analysis::{Measurement, by_analysis, unproved, verify as verified};

/// Prints the last verdict of each analysis, and how often it has looked.
pub(super) fn last_verdicts(measurements: &[Measurement]) {
    for (name, looks) in by_analysis(measurements) {
        let Some(last) = looks.last() else { continue };
        let (verdict, numbers) = (last.verdict.word(), last.numbers());
        say(plain(&format!("  analysis: {name}: {verdict} ({numbers}), at look {}", looks.len())));
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
pub(super) fn verify<'r>(history: &History, records: impl Iterator<Item = &'r Record>) -> anyhow::Result<Exit> {
    let (mut analyses, mut differs) = (0, false);
    for record in records {
        let found = verified(&history.measurements(record.id)?);
        let steps = history.steps(record.id)?;
        for proof in unproved(steps.iter().map(|step| step.detail.as_str()), &found) {
            differs = true;
            say(plain(&format!("{}: it was promoted early, and this is not proved: {proof}", record.object)));
        }
        for analysis in found {
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
            analysis.proofs.first().iter().for_each(|proof| say(plain(&format!("  {proof}"))));
            analysis.failure.iter().for_each(|failure| say(plain(&format!("  {failure}"))));
        }
    }
    if analyses == 0 {
        say("No analysis has measured this commit.");
    }
    Ok(if differs { Exit::No } else { Exit::Done })
}

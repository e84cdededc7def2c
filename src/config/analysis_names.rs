//! The analyses that the workloads of a source may ask for.

use belay_core::rollout::analysis::ANALYSES;

use super::{AnalysisConfig, Config, SourceConfig};

/// Gives each source the analyses that its workloads may ask for.
pub(super) fn assign(config: &mut Config) {
    for source in &mut config.source {
        config.analysis.clone_into(&mut source.known_analyses);
    }
}

/// Returns the faults of the analyses that a source names.
pub(super) fn faults(source: &SourceConfig, known: &[AnalysisConfig]) -> Vec<String> {
    let unknown = source.analysis.iter().filter(|name| !known.iter().any(|of| of.name == **name));
    let mut faults: Vec<String> =
        unknown.map(|name| format!("analysis {name:?}: there is no [[analysis]] of that name")).collect();
    if source.analysis.len() > ANALYSES {
        faults.push(format!("analysis: there are {}, and a workload has at most {ANALYSES}", source.analysis.len()));
    }
    if !source.analysis.is_empty() && source.bake.0.is_zero() {
        faults.push("analysis: an analysis runs within the bake time: say how long with bake".to_owned());
    }
    let bake = source.bake.0;
    let late =
        |of: &&AnalysisConfig| source.analysis.contains(&of.name) && of.shortest_verdict() >= bake && !bake.is_zero();
    for AnalysisConfig { name, .. } in known.iter().filter(late) {
        faults.push(format!(
            "analysis {name:?} can't fail within the bake time of {}: lengthen it, or shorten interval, warmup or failures",
            source.bake
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn read(source: &str) -> Result<Config, String> {
        let text = format!(
            "[[source]]\nrepository = \"/srv\"\n{source}\n[[analysis]]\nname = 'errors'\nprometheus = 'http://p:9090'\nquery = 'up'\nmin \
             = 1\n"
        );
        Config::parse(&text, "belay.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn a_source_names_what_there_is() {
        let config = read("bake = '5m'\nanalysis = ['errors']").unwrap();
        assert_eq!(config.source[0].known_analyses, config.analysis);
        for (source, fault) in [
            ("bake = '5m'\nanalysis = ['latency']", "analysis \"latency\": there is no [[analysis]] of that name"),
            ("analysis = ['errors']", "say how long with bake"),
            ("bake = '30s'\nanalysis = ['errors']", "analysis \"errors\" can't fail within the bake time of 30s"),
        ] {
            let error = read(source).unwrap_err();
            assert!(error.starts_with("belay.toml: source \"default\": ") && error.contains(fault), "{error}");
        }
    }
}

//! The analyses that the workloads of a source may ask for.

use belay_core::rollout::analysis::ANALYSES;

use super::{AnalysisConfig, SourceConfig};

/// Gives each source the analyses that its workloads may ask for. Returns the fault of one that names an unknown one.
pub(super) fn assign(sources: &mut [SourceConfig], known: &[AnalysisConfig]) -> Result<(), (String, String)> {
    for source in sources {
        let fault = if let Some(unknown) = source.analysis.iter().find(|name| !known.iter().any(|of| of.name == **name))
        {
            Some(format!("analysis {unknown:?}: there is no [[analysis]] of that name"))
        } else if source.analysis.len() > ANALYSES {
            Some(format!("analysis: there are {}, and a workload has at most {ANALYSES}", source.analysis.len()))
        } else if !source.analysis.is_empty() && source.bake.0.is_zero() {
            Some("analysis: an analysis runs within the bake time: say how long with bake".to_owned())
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err((source.name.clone(), fault));
        }
        known.clone_into(&mut source.known_analyses);
    }
    Ok(())
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
        ] {
            let error = read(source).unwrap_err();
            assert!(error.starts_with("belay.toml: source \"default\": ") && error.contains(fault), "{error}");
        }
    }
}

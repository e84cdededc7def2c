//! The capabilities of the cluster that a chart is rendered for.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The most bytes of one argument: Linux starts no program with one of 128 KiB.
const ARGUMENT: usize = 64 << 10;
/// The time after which the cluster is asked again.
const RENEWED: Duration = Duration::from_mins(10);

/// The content of `.Capabilities` in a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `v1.36.3`; empty if it is not known.
    pub kube_version: String,
    /// `apps/v1`, `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
}

impl Capabilities {
    /// Returns Helm's arguments for them.
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> {
        let version = (!self.kube_version.is_empty()).then(|| format!("--kube-version={}", self.kube_version));
        let mut apis: Vec<String> = Vec::new();
        for api in &self.api_versions {
            match apis.last_mut() {
                Some(last) if last.len() + api.len() < ARGUMENT => {
                    last.push(',');
                    last.push_str(api);
                }
                // Helm adds up what it is given several times.
                _ => apis.push(format!("--api-versions={api}")),
            }
        }
        version.into_iter().chain(apis).map(OsString::from)
    }
}

/// A renderer's knowledge of its cluster.
#[derive(Clone, Debug, Default)]
pub(super) enum KnownCapabilities {
    /// It renders for no cluster: Helm uses its defaults.
    #[default]
    Unasked,
    /// Charts wait until it is known.
    Awaited,
    /// And when they were asked for.
    Known(Arc<Capabilities>, Instant),
}

impl KnownCapabilities {
    pub(super) fn known(&self) -> Option<Arc<Capabilities>> {
        match self {
            KnownCapabilities::Known(capabilities, _) => Some(Arc::clone(capabilities)),
            KnownCapabilities::Unasked | KnownCapabilities::Awaited => None,
        }
    }

    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, KnownCapabilities::Awaited)
    }

    pub(super) fn are_old(&self) -> bool {
        matches!(self, KnownCapabilities::Known(_, asked) if asked.elapsed() > RENEWED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(api_versions: Vec<String>) -> Vec<String> {
        let capabilities = Capabilities { kube_version: "v1.36.3".to_owned(), api_versions };
        capabilities.arguments().map(|argument| argument.into_string().unwrap()).collect()
    }

    /// As with the definitions of a large provider of Crossplane.
    #[test]
    fn a_cluster_with_thousands_of_kinds_has_arguments_that_a_program_can_take() {
        let kinds: Vec<String> = (0..3000).map(|n| format!("ec2.aws.example.org/v1beta1/TransitGateway{n}")).collect();
        let given = arguments(kinds.clone());
        let told = given.iter().filter_map(|argument| argument.strip_prefix("--api-versions="));
        assert_eq!(told.flat_map(|list| list.split(',')).collect::<Vec<_>>(), kinds);
        assert!(given.len() > 2 && given.iter().all(|argument| argument.len() <= ARGUMENT));
    }

    #[test]
    fn a_few_kinds_are_one_argument() {
        let few = ["apps/v1", "v1"].map(str::to_owned).to_vec();
        assert_eq!(arguments(few), ["--kube-version=v1.36.3", "--api-versions=apps/v1,v1"]);
        assert_eq!(arguments(Vec::new()), ["--kube-version=v1.36.3"]);
    }
}

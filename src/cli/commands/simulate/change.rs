//! The changes of a workload by the flags.

use std::str::FromStr;

use anyhow::bail;
use serde_json::{Value, json};

use super::input::{PresentVersion, SimulationInput};
use crate::config::Span;
use belay_core::rollout::{same_template, template};

/// The annotation with the fate of a pod.
const FATE: &str = "kubelet.belay.dev/fate";

/// The annotation that distinguishes a new version from the one before if nothing else does.
const VERSION: &str = "belay.dev/simulated-version";

/// The changes that the command line asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub image: Vec<ImageChange>,
    pub replicas: Option<u32>,
    pub max_surge: Option<Amount>,
    pub max_unavailable: Option<Amount>,
    pub ready_after: Option<Span>,
    pub broken: bool,
    pub crash_after: Option<Span>,
}

/// `nginx:1.28`, or `web=nginx:1.28`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageChange {
    container: Option<String>,
    image: String,
}

impl FromStr for ImageChange {
    type Err = String;

    fn from_str(text: &str) -> Result<ImageChange, String> {
        let (container, image) = match text.split_once('=') {
            Some((container, image)) => (Some(container.to_owned()), image),
            None => (None, text),
        };
        if image.is_empty() || container.as_deref() == Some("") {
            return Err(format!("{text:?} is not IMAGE or CONTAINER=IMAGE"));
        }
        Ok(ImageChange { container, image: image.to_owned() })
    }
}

/// A number of pods, or a share of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount(Value);

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        let number = text.strip_suffix('%').unwrap_or(text).parse::<u32>();
        match number.map(|number| i32::try_from(number).map(|_| number)) {
            Ok(Ok(_)) if text.ends_with('%') => Ok(Amount(json!(text))),
            Ok(Ok(number)) => Ok(Amount(json!(number))),
            _ => Err(format!("{text:?} is not a number of pods such as 1, or a share such as 25%")),
        }
    }
}

/// Returns the workload before, if there was one, and after.
///
/// If there is one manifest, everything but the pod template holds for both; if the flags do not change its template
/// either, the new version differs only in an annotation.
///
/// # Errors
/// The flags do not fit the workload.
pub(super) fn both(scene: &SimulationInput, flags: &Flags) -> anyhow::Result<(Option<Value>, Value)> {
    let mut after = scene.after.clone();
    sizes(&mut after, flags)?;
    let before = match &scene.before {
        PresentVersion::Nothing => None,
        PresentVersion::Same => Some(after.clone()),
        PresentVersion::Other(before) => Some(before.clone()),
    };
    images(&mut after, &flags.image)?;
    if let Some(fate) = flags.fate() {
        after["spec"]["template"]["metadata"]["annotations"][FATE] = json!(fate);
    }
    if matches!(scene.before, PresentVersion::Same) && before.as_ref() == Some(&after) {
        after["spec"]["template"]["metadata"]["annotations"][VERSION] = json!("2");
    }
    Ok((before, after))
}

impl Flags {
    fn fate(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.broken {
            words.push("never-ready".to_owned());
        }
        if let Some(after) = self.ready_after {
            words.push(format!("ready-after={}", milliseconds(after)));
        }
        if let Some(after) = self.crash_after {
            words.push(format!("crash-after={}", milliseconds(after)));
        }
        (!words.is_empty()).then(|| words.join(","))
    }
}

/// Fates know no days.
fn milliseconds(Span(span): Span) -> String {
    format!("{}ms", span.as_millis())
}

fn sizes(workload: &mut Value, flags: &Flags) -> anyhow::Result<()> {
    let kind = workload["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(replicas) = flags.replicas {
        if matches!(kind.as_str(), "DaemonSet" | "Job") {
            bail!("a {kind} has no replicas; --nodes says how many nodes there are");
        }
        workload["spec"]["replicas"] = json!(replicas);
    }
    let amounts = [("maxSurge", &flags.max_surge), ("maxUnavailable", &flags.max_unavailable)];
    for (field, Amount(amount)) in amounts.into_iter().filter_map(|(field, amount)| Some((field, amount.as_ref()?))) {
        let strategy = match kind.as_str() {
            "Deployment" => "strategy",
            "DaemonSet" => "updateStrategy",
            "StatefulSet" if field == "maxUnavailable" => "updateStrategy",
            _ => bail!("a {kind} has no {field}"),
        };
        let strategy = &mut workload["spec"][strategy];
        match strategy["type"].as_str() {
            None | Some("RollingUpdate") => strategy["type"] = json!("RollingUpdate"),
            Some(other) => bail!("{field} means nothing with the strategy {other}"),
        }
        strategy["rollingUpdate"][field] = amount.clone();
    }
    Ok(())
}

fn images(workload: &mut Value, images: &[ImageChange]) -> anyhow::Result<()> {
    for ImageChange { container, image } in images {
        let spec = &mut workload["spec"]["template"]["spec"];
        let count = spec["containers"].as_array().map_or(0, Vec::len);
        let mut names = Vec::new();
        let mut found = false;
        for list in ["containers", "initContainers"] {
            for one in spec[list].as_array_mut().into_iter().flatten() {
                let name = one["name"].as_str().unwrap_or_default().to_owned();
                let meant = match container {
                    Some(wanted) => *wanted == name,
                    None => list == "containers" && count == 1,
                };
                if meant {
                    one["image"] = json!(image);
                    found = true;
                }
                names.push(name);
            }
        }
        if !found {
            match container {
                Some(wanted) => bail!("there is no container {wanted:?}; there are {}", names.join(", ")),
                None => bail!("there are several containers: {}; say --image CONTAINER={image}", names.join(", ")),
            }
        }
    }
    Ok(())
}

/// Returns true when the pods of two workloads are the same.
pub(super) fn same_pods(one: &Value, other: &Value) -> bool {
    match (template(one), template(other)) {
        (Some(one), Some(other)) => same_template(one, other),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_images_are_checked() {
        assert_eq!("25%".parse(), Ok(Amount(json!("25%"))));
        assert_eq!("3".parse(), Ok(Amount(json!(3))));
        for text in ["", "%", "-1", "a", "1.5", "3000000000", "5%%"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert_eq!("a=b:1".parse(), Ok(ImageChange { container: Some("a".to_owned()), image: "b:1".to_owned() }));
        assert!("=b".parse::<ImageChange>().is_err() && "a=".parse::<ImageChange>().is_err());
    }

    #[test]
    fn a_container_must_be_named_where_there_are_several() {
        let mut workload = json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}}});
        assert!(images(&mut workload, &["x:1".parse().unwrap()]).unwrap_err().to_string().contains("a, b"));
        assert!(images(&mut workload, &["c=x:1".parse().unwrap()]).is_err());
        images(&mut workload, &["b=x:1".parse().unwrap()]).unwrap();
        assert_eq!(workload["spec"]["template"]["spec"]["containers"][1]["image"], "x:1");
    }
}

//! `belay set image WORKLOAD CONTAINER=IMAGE …`

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::containers::{matching, patch_of};
use super::{Change, Place, change, in_pods, of};
use crate::cli::Globals;
use crate::cli::exit::Exit;
use crate::cli::worktree::edit_op::{Op, key};
use crate::cli::worktree::kustomization::KustomizationField;
use crate::cluster::{Part, Patch};
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::New;

/// The arguments of `belay set image`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The workloads (KIND/NAME …, KIND NAME …, or NAME …), and CONTAINER=IMAGE …; `*` is every container
    #[arg(value_name = "WORKLOAD|CONTAINER=IMAGE", required = true)]
    words: Vec<String>,
    /// Select the container that gets --image, instead of CONTAINER=IMAGE
    #[arg(long, value_name = "NAME", requires = "image")]
    container: Option<String>,
    /// Set the image of --container
    #[arg(long, value_name = "IMAGE", requires = "container")]
    image: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// New images for containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Images(Vec<(String, String)>);

pub(super) async fn run(globals: &Globals, args: Args) -> anyhow::Result<Exit> {
    let (mut settings, words): (Vec<String>, Vec<String>) = args.words.into_iter().partition(|word| word.contains('='));
    if let (Some(container), Some(image)) = (args.container, args.image) {
        settings.push(format!("{container}={image}"));
    }
    change(globals, &args.place, &words, &Images::read(&settings)?).await
}

impl Images {
    /// Reads `CONTAINER=IMAGE` …
    pub(super) fn read(settings: &[String]) -> anyhow::Result<Images> {
        let mut images = Vec::new();
        for setting in settings {
            let (container, image) = setting.split_once('=').unwrap_or_default();
            let odd = image.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control());
            if container.is_empty() || odd {
                bail!("{setting:?} is not CONTAINER=IMAGE");
            }
            images.push((container.to_owned(), image.to_owned()));
        }
        if images.is_empty() {
            bail!("no image: say CONTAINER=IMAGE, or '*=IMAGE' for every container");
        }
        Ok(Images(images))
    }
}

impl Change for Images {
    fn ops(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Vec<Op>> {
        let mut ops = Vec::new();
        for (pattern, image) in &self.0 {
            for container in matching(object, value, pattern)? {
                let new = New::Text(image.clone());
                match container.value.get("image") {
                    Some(before) if before == image.as_str() => {}
                    Some(_) => ops.push(Op::Set([container.path, vec![key("image")]].concat(), new)),
                    None => ops.push(Op::AddEntry(container.path, "image".to_owned(), new)),
                }
            }
        }
        Ok(ops)
    }

    fn patch(&self, object: &ObjectKey, value: &Value) -> anyhow::Result<Option<(Part, Patch)>> {
        let mut all = Vec::new();
        for (pattern, image) in &self.0 {
            let found = matching(object, value, pattern)?.into_iter();
            all.extend(found.filter(|found| found.value["image"] != image.as_str()).map(|found| (found, image)));
        }
        let change = |image: &String| Map::from_iter([("image".to_owned(), json!(image))]);
        let changes = all.iter().map(|(container, image)| (container, change(image))).collect();
        let spec = patch_of(object, value, changes);
        Ok(in_pods(object, spec))
    }

    fn field(&self) -> Option<KustomizationField> {
        Some(KustomizationField::Images)
    }

    fn done(&self) -> &'static str {
        "image updated"
    }

    fn subject(&self, objects: &[ObjectKey]) -> String {
        let of = of(objects);
        match self.0.as_slice() {
            [(_, image)] => format!("Set image {image} of {of}"),
            several => {
                let all: Vec<String> =
                    several.iter().map(|(container, image)| format!("{container}={image}")).collect();
                format!("Set images {} of {of}", all.join(", "))
            }
        }
    }
}

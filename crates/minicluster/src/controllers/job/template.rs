//! The template of a Job's pods. Pure.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::FINALIZER;
use super::indexes::INDEX;
use super::per_index::{FAILURES, Failures, IGNORED};
use crate::controllers::key::name_of;
use crate::controllers::pod_control::metadata_from;

/// The variable by which containers learn their index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest name of a pod with an index, so that a random end of five letters still fits into a host name.
const LONGEST: usize = 58;

/// The facts about its index for a pod.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The index.
    pub index: i32,
    /// The failures of the index, if the Job limits them.
    pub failures: Option<Failures>,
}

/// Returns the metadata and specification of a pod, with its index where it has one.
pub fn of(job: &Job, reference: OwnerReference, turn: Option<Turn>) -> (ObjectMeta, Option<PodSpec>) {
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut metadata = metadata_from(&template, &job.metadata, reference);
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let mut spec = template.spec;
    if let Some(Turn { index, failures }) = turn {
        let name = name_of(&job.metadata);
        metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        if let Some(failures) = failures {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(FAILURES.to_owned(), failures.counted.to_string());
            if failures.ignored > 0 {
                annotations.insert(IGNORED.to_owned(), failures.ignored.to_string());
            }
        }
        metadata.generate_name = Some(prefix(name, index));
        if let Some(spec) = &mut spec {
            spec.hostname = Some(format!("{name}-{index}"));
            let beside = spec.init_containers.iter_mut().flatten();
            beside.chain(&mut spec.containers).for_each(tell_index);
        }
    }
    (metadata, spec)
}

fn prefix(name: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let mut cut = name.len().min(LONGEST.saturating_sub(end.len()));
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{end}", &name[..cut])
}

fn tell_index(container: &mut Container) {
    let known = container.env.get_or_insert_default();
    if known.iter().any(|variable| variable.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), api_version: None };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    known.push(EnvVar { name: VARIABLE.to_owned(), value: None, value_from: Some(source) });
}

//! The facts about its pod that a container may know.

use super::container::{Container, Role};
use super::environment::{PodEffect, PodEnvironment};
use super::needs::Missing;
use crate::kubelet::fate::{Fate, Fates};
use crate::kubelet::pod::{RestartPolicy, SeenPod};

/// The facts about its pod that a container may know.
pub struct About<'a> {
    /// The pod as last seen.
    pub pod: &'a SeenPod,
    /// The pod's own words about its containers' fates, if it has any.
    pub fates: Option<&'a Result<Fates, String>>,
    /// The missing parts of the configuration that the pod names, if they are known.
    pub missing: Option<&'a Missing>,
    /// True when that was asked for and is not answered yet.
    pub asked: bool,
    /// True when the pod is being deleted, so that nothing is started any more.
    pub ending: bool,
}

/// When a container is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    fn of(policy: RestartPolicy) -> Restart {
        match policy {
            RestartPolicy::Never => Restart::Never,
            RestartPolicy::OnFailure => Restart::OnFailure,
            RestartPolicy::Always | RestartPolicy::Other => Restart::Always,
        }
    }

    /// Returns true when a container that ended with `code` is started again.
    pub fn after(self, code: i32) -> bool {
        match self {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

impl<'a> About<'a> {
    /// Returns the facts for a pod of which nothing is to be started, so that the configuration does not matter.
    pub fn without_configuration(
        pod: &'a SeenPod,
        fates: Option<&'a Result<Fates, String>>,
        ending: bool,
    ) -> About<'a> {
        About { pod, fates, missing: None, asked: false, ending }
    }
}

impl About<'_> {
    /// Returns when the pod's containers are started again.
    pub fn policy(&self) -> Restart {
        self.pod.spec.restart_policy.map_or(Restart::Always, Restart::of)
    }

    /// Returns when this container is started again.
    pub fn restart(&self, container: &Container) -> Restart {
        let own = container.spec(self.pod).and_then(|spec| spec.restart_policy).map(Restart::of);
        match container.role {
            Role::Sidecar => Restart::Always,
            Role::App => own.unwrap_or(self.policy()),
            // An init container that succeeded has done its part.
            Role::Init => match own.unwrap_or(self.policy()) {
                Restart::Never => Restart::Never,
                Restart::Always | Restart::OnFailure => Restart::OnFailure,
            },
        }
    }

    /// Asks for missing parts of the pod's configuration, unless that is under way; returns `true` if it did.
    pub fn ask(&self, environment: &mut PodEnvironment<'_>) -> bool {
        // Others of the pod's containers may have asked in the same step.
        let asks = !self.asked && environment.effects.last() != Some(&PodEffect::LookUp);
        if asks {
            environment.effects.push(PodEffect::LookUp);
        }
        asks
    }

    /// Returns the fate of a container now: the pod's, else that of the rules about its image, else the ordinary one.
    ///
    /// # Errors
    /// Fails with the fault of the pod's annotation.
    pub fn fate(&self, container: &Container, environment: &mut PodEnvironment<'_>) -> Result<Fate, String> {
        let said = match self.fates {
            None => None,
            Some(Err(problem)) => return Err(problem.clone()),
            Some(Ok(fates)) => {
                let all = if container.role == Role::App { fates.all.as_ref() } else { None };
                fates.named.get(&container.name).or(all).cloned()
            }
        };
        let (now, speed) = (environment.now, environment.speed);
        let (namespace, name) = (&self.pod.namespace, &self.pod.name);
        let said = said.or_else(|| environment.rules.fate(&container.image, namespace, name, now, speed));
        let fate = said.unwrap_or_default();
        let finite = match container.role {
            Role::Init => true,
            Role::Sidecar => false,
            Role::App => self.restart(container) != Restart::Always,
        };
        Ok(if finite { fate.or_finite() } else { fate })
    }
}

/// Checks that the fates name containers that there are.
///
/// # Errors
/// Fails with the container that does not exist.
pub fn check(fates: Fates, containers: &[Container]) -> Result<Fates, String> {
    let unknown = fates.named.keys().find(|name| !containers.iter().any(|container| container.name == **name));
    match unknown {
        Some(name) => Err(format!("the fate names a container {name:?} that the pod does not have")),
        None => Ok(fates),
    }
}

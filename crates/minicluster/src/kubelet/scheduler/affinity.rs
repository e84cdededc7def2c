//! Pods that want to be near other pods, or far from them, and how evenly they are spread.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::cluster::Cluster;
use super::groups::keeps_away;
use super::labels::{Labels, selects, tolerates, wants_node};
use crate::kubelet::pod::SeenPod;

/// A domain of a topology: the key and a node's value of it.
type Domain<'a> = (&'a str, &'a str);

/// The meaning of the placed pods for one that is to be placed.
#[derive(Debug, Default)]
pub struct Neighbours<'a> {
    /// The domains in which each required affinity term is met, with its key. `None` if the pod itself is the first.
    near: Vec<(&'a str, Option<BTreeSet<&'a str>>)>,
    /// The domains where the pod must not be by its own will.
    far: BTreeSet<Domain<'a>>,
    /// The domains where the others do not want it.
    unwanted: BTreeSet<Domain<'a>>,
    /// The domains that the pod prefers, with weights.
    liked: BTreeMap<Domain<'a>, i64>,
    spreads: Vec<Spread<'a>>,
}

/// A topology spread constraint at work.
#[derive(Debug)]
struct Spread<'a> {
    constraint: &'a TopologySpreadConstraint,
    /// Matching pods in each domain.
    counts: BTreeMap<&'a str, i64>,
    least: i64,
    own: i64,
}

/// The reason for which a node is not among those that a pod's neighbours leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unneighbourly {
    Far,
    Near,
    Unwanted,
    Uneven,
    NoLabel,
}

impl<'a> Neighbours<'a> {
    /// Looks at all pods that are placed. Costs nothing if nobody says anything about neighbours.
    pub fn new(pod: &'a SeenPod, cluster: &'a Cluster) -> Neighbours<'a> {
        let mut neighbours = Neighbours::default();
        let affinity = pod.spec.affinity.as_ref();
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        for term in near
            .into_iter()
            .flat_map(|near| required(near.required_during_scheduling_ignored_during_execution.as_ref()))
        {
            let domains = domains_of(term, pod, cluster);
            let first = domains.is_empty() && matches(term, pod, &pod.namespace, &pod.labels);
            neighbours
                .near
                .push((&term.topology_key, (!first).then(|| domains.into_iter().map(|(_, value)| value).collect())));
        }
        for term in
            far.into_iter().flat_map(|far| required(far.required_during_scheduling_ignored_during_execution.as_ref()))
        {
            neighbours.far.extend(domains_of(term, pod, cluster));
        }
        let liked = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref());
        let disliked = far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref());
        for (terms, sign) in [(liked, 1), (disliked, -1)] {
            for weighted in terms.into_iter().flatten() {
                for (domain, count) in each_domain_of(&weighted.pod_affinity_term, pod, cluster) {
                    *neighbours.liked.entry(domain).or_default() += sign * count * i64::from(weighted.weight);
                }
            }
        }
        for others in cluster.groups().shy() {
            let terms = required(keeps_away(&others.pod));
            let keys = terms.filter(|term| matches(term, &others.pod, &pod.namespace, &pod.labels));
            for term in keys {
                let nodes = others.nodes.keys();
                neighbours.unwanted.extend(nodes.filter_map(|node| domain(&term.topology_key, node, cluster)));
            }
        }
        let spreads = pod.spec.topology_spread_constraints.iter();
        neighbours.spreads = spreads.map(|constraint| Spread::new(constraint, pod, cluster)).collect();
        neighbours
    }

    /// Returns why a node with these labels will not do, if it will not.
    pub fn refuse(&self, labels: &Labels) -> Option<Unneighbourly> {
        let within = |domains: &BTreeSet<Domain<'_>>| {
            domains.iter().any(|(key, value)| labels.get(key).is_some_and(|own| own == value))
        };
        for spread in self.spreads.iter().filter(|spread| spread.constraint.when_unsatisfiable == "DoNotSchedule") {
            match labels.get(&spread.constraint.topology_key) {
                None => return Some(Unneighbourly::NoLabel),
                Some(value) if spread.skew(value) > i64::from(spread.constraint.max_skew) => {
                    return Some(Unneighbourly::Uneven);
                }
                Some(_) => {}
            }
        }
        let met = |(key, domains): &(&str, Option<BTreeSet<&str>>)| {
            labels.get(key).is_some_and(|own| domains.as_ref().is_none_or(|domains| domains.contains(own.as_str())))
        };
        if !self.near.iter().all(met) {
            Some(Unneighbourly::Near)
        } else if within(&self.far) {
            Some(Unneighbourly::Far)
        } else if within(&self.unwanted) {
            Some(Unneighbourly::Unwanted)
        } else {
            None
        }
    }

    /// Returns how much the pod would like a node with these labels for its neighbours.
    pub fn liking(&self, labels: &Labels) -> i64 {
        let liked = self.liked.iter().filter(|((key, value), _)| labels.get(key).is_some_and(|own| own == value));
        liked.map(|(_, weight)| weight).sum()
    }

    /// Returns how many matching pods there are already near a node with these labels, over all constraints; a node
    /// outside all domains is worse than any other.
    pub fn crowd(&self, labels: &Labels) -> i64 {
        let here = |spread: &Spread<'_>| {
            let value = labels.get(&spread.constraint.topology_key);
            value.map_or(i64::from(i32::MAX), |value| spread.counts.get(value.as_str()).copied().unwrap_or(0))
        };
        self.spreads.iter().map(here).sum()
    }
}

/// Returns true when a pod that waits may be placed differently now that `other` is placed.
pub fn minds(pod: &SeenPod, other: &SeenPod) -> bool {
    let near = pod.spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref());
    let mut spreads = pod.spec.topology_spread_constraints.iter();
    let counted = |constraint: &TopologySpreadConstraint| selects(constraint.label_selector.as_ref(), &other.labels);
    required(terms).any(|term| matches(term, pod, &other.namespace, &other.labels))
        || (pod.namespace == other.namespace && spreads.any(counted))
}

impl<'a> Spread<'a> {
    fn new(constraint: &'a TopologySpreadConstraint, pod: &'a SeenPod, cluster: &'a Cluster) -> Spread<'a> {
        let selector = with_keys(constraint, pod);
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for (name, facts) in cluster.nodes() {
            let affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore")
                || wants_node(&pod.spec, name, &facts.labels);
            let honours = constraint.node_taints_policy.as_deref() == Some("Honor");
            let tainted = facts
                .taints
                .iter()
                .any(|taint| taint.effect != "PreferNoSchedule" && !tolerates(pod.spec.tolerations.as_ref(), taint));
            if let Some(value) = facts.labels.get(&constraint.topology_key)
                && affinity
                && !(honours && tainted)
            {
                counts.entry(value.as_str()).or_insert(0);
            }
        }
        for (traits, nodes) in cluster.groups().alike() {
            let counts_here =
                traits.namespace == pod.namespace && !traits.leaving && selects(selector.as_ref(), &traits.labels);
            for (node, there) in nodes.iter().filter(|_| counts_here) {
                if let Some((_, value)) = domain(&constraint.topology_key, node, cluster) {
                    counts.entry(value).and_modify(|count| *count += there);
                }
            }
        }
        let enough = constraint
            .min_domains
            .is_none_or(|least| i64::try_from(counts.len()).is_ok_and(|there| there >= least.into()));
        let least = if enough { counts.values().copied().min().unwrap_or(0) } else { 0 };
        let own = i64::from(selects(selector.as_ref(), &pod.labels));
        Spread { constraint, counts, least, own }
    }

    fn skew(&self, value: &str) -> i64 {
        self.counts.get(value).copied().unwrap_or(0) + self.own - self.least
    }
}

/// Returns the selector of a constraint, narrowed to the pod's own values of `matchLabelKeys`.
fn with_keys(constraint: &TopologySpreadConstraint, pod: &SeenPod) -> Option<LabelSelector> {
    let mut selector = constraint.label_selector.clone()?;
    let keys = constraint.match_label_keys.iter().flatten();
    let own = keys.filter_map(|key| Some((key.clone(), pod.labels.get(key)?.clone())));
    let expressions =
        own.map(|(key, value)| LabelSelectorRequirement { key, operator: "In".to_owned(), values: Some(vec![value]) });
    selector.match_expressions.get_or_insert_default().extend(expressions);
    Some(selector)
}

fn required(terms: Option<&Vec<PodAffinityTerm>>) -> impl Iterator<Item = &PodAffinityTerm> {
    terms.into_iter().flatten()
}

/// Returns the domains of the pods that a term of `of` is about.
fn domains_of<'a>(term: &'a PodAffinityTerm, of: &SeenPod, cluster: &'a Cluster) -> BTreeSet<Domain<'a>> {
    each_domain_of(term, of, cluster).map(|(domain, _)| domain).collect()
}

/// Returns the same, node by node, with the number of these pods there.
fn each_domain_of<'a>(
    term: &'a PodAffinityTerm,
    of: &SeenPod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = (Domain<'a>, i64)> {
    let about =
        cluster.groups().alike().filter(move |(traits, _)| matches(term, of, &traits.namespace, &traits.labels));
    let nodes = about.flat_map(|(_, nodes)| nodes);
    nodes.filter_map(|(node, count)| Some((domain(&term.topology_key, node, cluster)?, *count)))
}

fn domain<'a>(key: &'a str, node: &str, cluster: &'a Cluster) -> Option<Domain<'a>> {
    Some((key, cluster.node(node)?.labels.get(key)?))
}

/// Returns true when a term of `of` is about pods of a namespace with these labels.
fn matches(term: &PodAffinityTerm, of: &SeenPod, namespace: &String, labels: &Labels) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_namespace = match &term.namespace_selector {
        None if named.is_empty() => of.namespace == *namespace,
        None => named.contains(namespace),
        Some(selector) => {
            // Only the label that every namespace has is known of namespaces.
            let of_namespace = [("kubernetes.io/metadata.name".to_owned(), namespace.clone())].into();
            named.contains(namespace) || selects(Some(selector), &of_namespace)
        }
    };
    in_namespace && selects(term.label_selector.as_ref(), labels)
}

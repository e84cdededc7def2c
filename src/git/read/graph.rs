//! The graph of commits, held in memory, so that every question about it has an exact answer.
//!
//! libgit2's own walks cut corners by the commits' clocks and can be wrong where those run backwards. Here every commit
//! has a generation, one more than the largest of its parents': a commit can only come from commits of lower
//! generations. Clocks play no part.

use std::collections::{BinaryHeap, HashMap, HashSet};

use git2::{Oid, Repository};

use crate::git::error::GitError;

/// The number of a commit in a [`Graph`].
pub(in crate::git) type GraphNode = u32;

/// The largest average number of parents of a history's commits. A few bytes can stand for a commit with thousands.
const EDGES: usize = 2;

/// The commits of a repository, as far as they were asked for.
#[derive(Default)]
pub(in crate::git) struct Graph {
    numbers: HashMap<Oid, GraphNode>,
    commits: Vec<Commit>,
    /// The number of parents of the commits that were read, all together.
    edges: usize,
}

/// A commit whose parents are being loaded.
struct Frame {
    id: Oid,
    parents: Vec<Oid>,
    next: usize,
}

struct Commit {
    id: Oid,
    generation: u32,
    parents: Box<[GraphNode]>,
}

impl Graph {
    /// Adds a commit and everything that it comes from. At most `limit` commits are held.
    pub(in crate::git) fn load(
        &mut self,
        repository: &Repository,
        tip: Oid,
        limit: usize,
        damaged: impl Fn(&git2::Error) -> GitError,
    ) -> Result<GraphNode, GitError> {
        // Parents first; an explicit stack, for histories are longer than call stacks. Each commit is read once, and stands in
        // the stack once, however many commits name it.
        let read = |graph: &mut Graph, id: Oid| {
            let commit = repository.find_commit(id).map_err(|error| damaged(&error))?;
            graph.edges += commit.parent_count();
            if graph.edges > limit.saturating_mul(EDGES) {
                let what = "the commits of the history have too many parents".to_owned();
                return Err(GitError::TooMany { what, limit: limit.saturating_mul(EDGES) });
            }
            Ok(Frame { id, parents: commit.parent_ids().collect(), next: 0 })
        };
        let mut stack = Vec::new();
        if !self.numbers.contains_key(&tip) {
            stack.push(read(self, tip)?);
        }
        while let Some(frame) = stack.last_mut() {
            if let Some(parent) = frame.parents.get(frame.next).copied() {
                frame.next += 1;
                if !self.numbers.contains_key(&parent) {
                    stack.push(read(self, parent)?);
                }
                continue;
            }
            if self.commits.len() >= limit {
                return Err(GitError::TooMany { what: "the history has too many commits".to_owned(), limit });
            }
            self.add(frame.id, &frame.parents);
            stack.pop();
        }
        Ok(self.numbers[&tip])
    }

    fn add(&mut self, id: Oid, parents: &[Oid]) {
        let parents: Box<[GraphNode]> = parents.iter().map(|parent| self.numbers[parent]).collect();
        let generation = parents.iter().map(|parent| self.generation(*parent) + 1).max().unwrap_or(0);
        let number = GraphNode::try_from(self.commits.len()).expect("a limit far below 2^32");
        self.commits.push(Commit { id, generation, parents });
        self.numbers.insert(id, number);
    }

    pub(in crate::git) fn id(&self, node: GraphNode) -> Oid {
        self.commits[node as usize].id
    }

    /// Returns the ids of all commits that have been loaded.
    pub(in crate::git) fn ids(&self) -> impl Iterator<Item = Oid> + '_ {
        self.commits.iter().map(|commit| commit.id)
    }

    pub(in crate::git) fn parents(&self, node: GraphNode) -> &[GraphNode] {
        &self.commits[node as usize].parents
    }

    pub(in crate::git) fn generation(&self, node: GraphNode) -> u32 {
        self.commits[node as usize].generation
    }

    /// Adds to `known` these commits and everything that they come from.
    pub(in crate::git) fn spread(&self, from: impl IntoIterator<Item = GraphNode>, known: &mut HashSet<GraphNode>) {
        let mut stack: Vec<GraphNode> = from.into_iter().filter(|node| known.insert(*node)).collect();
        while let Some(node) = stack.pop() {
            stack.extend(self.parents(node).iter().filter(|parent| known.insert(**parent)));
        }
    }

    /// Returns the commits that `to` comes from and `from` does not, `to` included, each before all that it comes from;
    /// the first `limit` of them.
    pub(in crate::git) fn between(&self, from: Option<GraphNode>, to: GraphNode, limit: usize) -> Vec<GraphNode> {
        let mut walk = GraphWalk::new(self, from, to);
        let mut between = Vec::new();
        while walk.only_to > 0 && between.len() < limit {
            let Some((node, paint)) = walk.next() else { break };
            if paint == TO {
                between.push(node);
            }
        }
        between
    }

    /// Goes from `to` down to all its ancestors, each commit after all its descendants, and marks each as new or not:
    /// `from` and its ancestors are not new. Ends with the last new one.
    pub(in crate::git) fn steps(
        &self,
        from: Option<GraphNode>,
        to: GraphNode,
    ) -> impl Iterator<Item = (GraphNode, bool)> + use<'_> {
        let mut walk = GraphWalk::new(self, from, to);
        std::iter::from_fn(move || {
            while walk.only_to > 0 {
                let (node, paint) = walk.next()?;
                if paint != FROM {
                    return Some((node, paint == TO));
                }
            }
            None
        })
    }

    /// Returns the newest commit that both are or come from: of several, none comes from another.
    pub(in crate::git) fn common(&self, one: GraphNode, other: GraphNode) -> Option<GraphNode> {
        let mut walk = GraphWalk::new(self, Some(one), other);
        loop {
            let (node, paint) = walk.next()?;
            if paint == FROM | TO {
                return Some(node);
            }
        }
    }
}

const FROM: u8 = 1;
const TO: u8 = 2;

/// Goes down from two commits at once, each commit after everything that comes from it: by falling generation. So when a
/// commit is taken out of the queue, it is known from which of the two it can be reached.
struct GraphWalk<'a> {
    graph: &'a Graph,
    paints: HashMap<GraphNode, u8>,
    queue: BinaryHeap<(u32, GraphNode)>,
    /// The number of commits in the queue that have so far been reached from `to` alone.
    only_to: usize,
}

impl GraphWalk<'_> {
    fn new(graph: &Graph, from: Option<GraphNode>, to: GraphNode) -> GraphWalk<'_> {
        let mut walk = GraphWalk { graph, paints: HashMap::new(), queue: BinaryHeap::new(), only_to: 0 };
        walk.paint(to, TO);
        if let Some(from) = from {
            walk.paint(from, FROM);
        }
        walk
    }

    fn next(&mut self) -> Option<(GraphNode, u8)> {
        let (_, node) = self.queue.pop()?;
        let paint = self.paints[&node];
        self.only_to -= usize::from(paint == TO);
        for parent in self.graph.parents(node) {
            self.paint(*parent, paint);
        }
        Some((node, paint))
    }

    fn paint(&mut self, node: GraphNode, paint: u8) {
        match self.paints.get_mut(&node) {
            None => {
                self.paints.insert(node, paint);
                self.queue.push((self.graph.generation(node), node));
                self.only_to += usize::from(paint == TO);
            }
            Some(before) => {
                let after = *before | paint;
                self.only_to -= usize::from(*before == TO && after != TO);
                *before = after;
            }
        }
    }
}

//! The commits that changed a file: for each path, newest first, through merges.
//!
//! A change that came in with a merge is charged to the commit on the side branch: from each commit the walk goes on to
//! the first parent that has the same content, and only if no parent has it did the commit itself, be it a merge,
//! change it. `git log -- <path>` sees it in the same way. The order is that of the graph; clocks play no part.

use std::collections::{BTreeMap, HashMap};

use git2::{Oid, Repository};

use super::folder_trees::FolderTrees;
use super::graph::{Graph, GraphNode};
use super::limits::PARENTS;
use super::tree::Entry;
use crate::git::error::GitError;
use crate::git::mirror::{Mirror, commit_id, oid};
use belay_core::rollout::CommitId;

/// The commits that changed one file between two commits. `links[0]` is the newest; if a merge brought several lines
/// together, each line goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The commits. Empty when the file is the same at both ends.
    pub links: Vec<ChainLink>,
}

/// A commit that changed the file against each of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLink {
    /// The commit.
    pub commit: CommitId,
    /// The file after it; `None` when it deleted the file.
    pub after: Option<Entry>,
    /// The file before it, one for each parent. Empty when the walk reached its limit, or a commit that is beyond the
    /// limits, and this commit is but a guess.
    pub before: Vec<FileBefore>,
}

/// The file in one parent of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBefore {
    /// Its content; `None` when it did not exist.
    pub content: Option<Entry>,
    /// The commit that had made it so.
    pub next: Next,
}

/// The commit that made a file as it was before a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The link with this index in the chain.
    Link(usize),
    /// A commit that `from` comes from too.
    Earlier,
    /// Nobody: the file was not there.
    Nobody,
    /// The search ended before it.
    Unknown,
}

impl Chain {
    /// Returns the commits that are charged with things in the file, objects of several: for each the newest that gave
    /// it its present content. `version` reads the version of each of them in a content; `None` stands for no file.
    /// Each version is read once.
    ///
    /// # Errors
    ///
    /// Those of `version`.
    pub fn charged<K: Ord, T: PartialEq, E>(
        &self,
        now: BTreeMap<K, Option<T>>,
        mut version: impl FnMut(Option<&Entry>) -> Result<BTreeMap<K, T>, E>,
    ) -> Result<BTreeMap<K, &CommitId>, E> {
        let mut charged = BTreeMap::new();
        // A link comes before those that it goes on to, so its visits on several lines are together by then.
        let mut waiting = BTreeMap::from([(0, now)]);
        while let Some((index, mut things)) = waiting.pop_first() {
            let Some(link) = self.links.get(index) else { continue };
            for before in &link.before {
                let Next::Link(next) = before.next else { continue };
                if things.is_empty() {
                    break;
                }
                let then = version(before.content.as_ref())?;
                let (same, others) = things.into_iter().partition(|(key, value)| then.get(key) == value.as_ref());
                waiting.entry(next).or_insert_with(BTreeMap::new).extend::<BTreeMap<K, Option<T>>>(same);
                things = others;
            }
            charged.extend(things.into_keys().map(|key| (key, &link.commit)));
        }
        Ok(charged)
    }
}

impl Mirror {
    /// Returns for each of these paths below `folder` the commits that changed it after `from` and up to `to`; in all
    /// of history if `from` is `None`. At most `links` commits are named for a path: 1 is enough where a file is one
    /// thing.
    ///
    /// A path that differs always has a commit to be charged. If a merge took the older of two versions, that is the
    /// merge; if `to` has nothing that `from` had not, as after a branch was moved back, it is the commit that last
    /// changed the file in the history of `to`; and if [`crate::git::Limits::walk`] commits did not tell, `to` itself.
    ///
    /// # Errors
    ///
    /// When a commit is unknown, or the mirror can't be read.
    pub fn attribution(
        &self,
        from: Option<&CommitId>,
        to: &CommitId,
        folder: &str,
        paths: &[String],
        links: usize,
    ) -> Result<BTreeMap<String, Chain>, GitError> {
        self.with(|repository| {
            self.with_graph(|graph| {
                let ends = self.ends(repository, from, to, folder, paths)?;
                let (from, to_node) = match self.load_both(repository, graph, from, to) {
                    // Too long a history to be held: the commit can't be determined.
                    Err(GitError::TooMany { .. }) => return Ok(guessed(to, paths, &ends)),
                    loaded => loaded?,
                };
                let mut walk = AttributionWalk::new(self, repository, graph, folder, paths, links.max(1));
                walk.run(from, to_node, &ends)?;
                if from.is_some() {
                    walk.mend(to_node, &ends)?;
                }
                Ok(paths.iter().cloned().zip(walk.chains).collect())
            })
        })
    }

    fn load_both(
        &self,
        repository: &Repository,
        graph: &mut Graph,
        from: Option<&CommitId>,
        to: &CommitId,
    ) -> Result<(Option<GraphNode>, GraphNode), GitError> {
        let mut load =
            |id: &CommitId| graph.load(repository, oid(id)?, self.limits.history, |error| self.missing(id, error));
        Ok((from.map(&mut load).transpose()?, load(to)?))
    }

    /// Returns these paths at both ends. Costs by the difference, not by the size.
    fn ends(
        &self,
        repository: &Repository,
        from: Option<&CommitId>,
        to: &CommitId,
        folder: &str,
        paths: &[String],
    ) -> Result<Vec<Ends>, GitError> {
        let mut tree = |id: &CommitId| {
            let known = repository.find_commit(oid(id)?).map_err(|error| self.missing(id, &error))?;
            self.folder_at(repository, known.id(), folder)
        };
        let before = from.map(&mut tree).transpose()?.flatten();
        let changes = self.compare(repository, before, tree(to)?, folder)?.changes;
        let ends: HashMap<&str, Ends> =
            changes.iter().map(|change| (change.path.as_str(), (change.before, change.after))).collect();
        Ok(paths.iter().map(|path| ends.get(path.as_str()).copied().unwrap_or_default()).collect())
    }
}

/// A file at `from` and at `to`. Nothing twice for one that is the same.
type Ends = (Option<Entry>, Option<Entry>);

fn guessed(to: &CommitId, paths: &[String], ends: &[Ends]) -> BTreeMap<String, Chain> {
    let guess = |(path, (_, after)): (&String, &Ends)| {
        (path.clone(), Chain { links: vec![ChainLink { commit: to.clone(), after: *after, before: Vec::new() }] })
    };
    paths.iter().zip(ends).filter(|(_, (before, after))| before != after).map(guess).collect()
}

/// The index of a path among those that are asked for.
type PathNumber = usize;

/// The asker for the commit that made a file as it is at a commit: the beginning of its chain, or one side of a link.
#[derive(Clone, Copy)]
enum Waiter {
    Beginning,
    Side { link: usize, side: usize },
}

/// A question about one file at one commit.
struct Question {
    content: Option<Entry>,
    waiters: Vec<Waiter>,
}

type Questions = HashMap<PathNumber, Question>;

struct AttributionWalk<'a> {
    mirror: &'a Mirror,
    repository: &'a Repository,
    graph: &'a Graph,
    folder: &'a str,
    numbers: HashMap<&'a str, PathNumber>,
    most: usize,
    chains: Vec<Chain>,
    /// The newest merge that took one of several versions of a file.
    choices: HashMap<PathNumber, ChainLink>,
    asked: HashMap<GraphNode, Questions>,
    trees: FolderTrees<'a>,
    left: usize,
}

impl<'a> AttributionWalk<'a> {
    fn new(
        mirror: &'a Mirror,
        repository: &'a Repository,
        graph: &'a Graph,
        folder: &'a str,
        paths: &'a [String],
        most: usize,
    ) -> AttributionWalk<'a> {
        AttributionWalk {
            mirror,
            repository,
            graph,
            folder,
            numbers: paths.iter().enumerate().map(|(number, path)| (path.as_str(), number)).collect(),
            most,
            chains: vec![Chain::default(); paths.len()],
            choices: HashMap::new(),
            asked: HashMap::new(),
            trees: FolderTrees::new(mirror, repository, folder),
            left: mirror.limits.walk,
        }
    }

    /// Asks at `to` about all paths that differ and have no link yet, and follows them down.
    fn run(&mut self, from: Option<GraphNode>, to: GraphNode, ends: &[Ends]) -> Result<(), GitError> {
        let question = |content| Question { content, waiters: vec![Waiter::Beginning] };
        let open =
            |(number, (before, after)): &(PathNumber, &Ends)| before != after && self.chains[*number].links.is_empty();
        let questions = ends.iter().enumerate().filter(open);
        let questions: Questions = questions.map(|(number, (_, after))| (number, question(*after))).collect();
        if questions.is_empty() {
            return Ok(());
        }
        self.asked = HashMap::from([(to, questions)]);
        let mut steps = self.graph.steps(from, to);
        while !self.asked.is_empty()
            && let Some((node, is_new)) = steps.next()
        {
            let Some(questions) = self.asked.remove(&node) else { continue };
            if !is_new {
                self.answer(questions, Next::Earlier);
            } else if self.left == 0 {
                self.guess(to, questions);
            } else {
                self.left -= 1;
                self.commit(node, questions)?;
            }
        }
        for (_, questions) in std::mem::take(&mut self.asked) {
            self.answer(questions, Next::Earlier);
        }
        Ok(())
    }

    /// Charges somebody with each path that differs although nobody after `from` changed it.
    fn mend(&mut self, to: GraphNode, ends: &[Ends]) -> Result<(), GitError> {
        for (number, chain) in self.chains.iter_mut().enumerate() {
            if chain.links.is_empty() {
                chain.links.extend(self.choices.remove(&number));
            }
        }
        self.run(None, to, ends)
    }

    fn commit(&mut self, node: GraphNode, mut questions: Questions) -> Result<(), GitError> {
        let parents = self.graph.parents(node);
        if parents.is_empty() {
            for (number, question) in questions {
                self.link(node, number, question, &[(None, None)]);
            }
            return Ok(());
        }
        if parents.len() > PARENTS {
            tracing::warn!(commit = %self.graph.id(node), "more than {PARENTS} parents: charged with what they brought");
            self.guess(node, questions);
            return Ok(());
        }
        let mut differs: Vec<HashMap<PathNumber, Option<Entry>>> = Vec::new();
        let after = self.trees.at(self.graph.id(node))?;
        for parent in parents {
            let before = self.trees.at(self.graph.id(*parent))?;
            match self.differs(before, after, &questions) {
                Ok(paths) => differs.push(paths),
                // A former commit was beyond the limits. Later commits can be followed nevertheless.
                Err(GitError::TooMany { .. }) => {
                    self.guess(node, questions);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        for number in differs.iter().flat_map(HashMap::keys).copied().collect::<Vec<_>>() {
            let Some(question) = questions.remove(&number) else { continue };
            let sides: Vec<(Option<GraphNode>, Option<Entry>)> = parents
                .iter()
                .zip(&differs)
                .map(|(parent, differs)| (Some(*parent), differs.get(&number).copied().unwrap_or(question.content)))
                .collect();
            match differs.iter().position(|differs| !differs.contains_key(&number)) {
                None => self.link(node, number, question, &sides),
                Some(same) => {
                    if question.waiters.iter().any(|waiter| matches!(waiter, Waiter::Beginning)) {
                        let side =
                            |(_, content): &(_, Option<Entry>)| FileBefore { content: *content, next: Next::Unknown };
                        let before = sides.iter().map(side).collect();
                        let commit = commit_id(self.graph.id(node));
                        let choice = ChainLink { commit, after: question.content, before };
                        self.choices.entry(number).or_insert(choice);
                    }
                    self.ask(parents[same], number, question);
                }
            }
        }
        // All the rest, mostly by far, is as in the first parent.
        self.ask_all(parents[0], questions);
        Ok(())
    }

    /// Returns the paths that are asked about and differ between two trees, with their content before.
    fn differs(
        &self,
        before: Option<Oid>,
        after: Option<Oid>,
        questions: &Questions,
    ) -> Result<HashMap<PathNumber, Option<Entry>>, GitError> {
        let changes = self.mirror.compare(self.repository, before, after, self.folder)?.changes;
        let wanted = changes.iter().filter_map(|change| {
            let number = *self.numbers.get(change.path.as_str())?;
            questions.contains_key(&number).then_some((number, change.before))
        });
        Ok(wanted.collect())
    }

    /// Links a file to this commit, which made it so.
    fn link(
        &mut self,
        node: GraphNode,
        number: PathNumber,
        question: Question,
        sides: &[(Option<GraphNode>, Option<Entry>)],
    ) {
        let links = &mut self.chains[number].links;
        let link = links.len();
        let before = |(_, content): &(Option<GraphNode>, Option<Entry>)| FileBefore {
            content: *content,
            next: if content.is_none() { Next::Nobody } else { Next::Unknown },
        };
        links.push(ChainLink {
            commit: commit_id(self.graph.id(node)),
            after: question.content,
            before: sides.iter().map(before).collect(),
        });
        let goes_on = links.len() < self.most;
        self.answer(HashMap::from([(number, question)]), Next::Link(link));
        for (side, (parent, content)) in sides.iter().enumerate() {
            if let (Some(parent), Some(_), true) = (parent, content, goes_on) {
                let question = Question { content: *content, waiters: vec![Waiter::Side { link, side }] };
                self.ask(*parent, number, question);
            }
        }
    }

    fn ask(&mut self, node: GraphNode, number: PathNumber, question: Question) {
        self.ask_all(node, HashMap::from([(number, question)]));
    }

    fn ask_all(&mut self, node: GraphNode, questions: Questions) {
        if questions.is_empty() {
            return;
        }
        let there = self.asked.entry(node).or_default();
        let fewer = if there.len() < questions.len() { std::mem::replace(there, questions) } else { questions };
        for (number, question) in fewer {
            match there.get_mut(&number) {
                Some(same) => same.waiters.extend(question.waiters),
                None => drop(there.insert(number, question)),
            }
        }
    }

    fn answer(&mut self, questions: Questions, next: Next) {
        for (number, question) in questions {
            for waiter in question.waiters {
                if let Waiter::Side { link, side } = waiter {
                    self.chains[number].links[link].before[side].next = next;
                }
            }
        }
    }

    /// Charges a commit with the files of which nothing better is known.
    fn guess(&mut self, with: GraphNode, questions: Questions) {
        for (number, question) in questions {
            let links = &mut self.chains[number].links;
            if links.is_empty() && question.waiters.iter().any(|waiter| matches!(waiter, Waiter::Beginning)) {
                let commit = commit_id(self.graph.id(with));
                links.push(ChainLink { commit, after: question.content, before: Vec::new() });
            }
        }
    }
}

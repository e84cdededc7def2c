//! Everything in a configuration that can be read, and can't be used.

use std::collections::BTreeSet;

use super::read::TakenOut;
use super::{Config, ConfigError, analysis_names, is_commit_url, is_public_url, order};

impl Config {
    /// Returns its faults. Entries that were taken out cause none: nothing is said of a source or receiver that lacks
    /// entries, nor about names if some are missing.
    pub(super) fn faults(&self, file: &str, taken_out: &TakenOut) -> Vec<ConfigError> {
        let file = || file.to_owned();
        let mut faults = Vec::new();
        if self.source.is_empty() && !taken_out.names {
            faults.push(ConfigError::Empty { file: file() });
        }
        let mut names = BTreeSet::new();
        for (number, source) in self.source.iter().enumerate() {
            let mut messages = if taken_out.sources.contains(&number) { Vec::new() } else { source.faults() };
            if !taken_out.names {
                messages.extend(order::wrong_order(source, &self.source));
            }
            if !taken_out.names && !taken_out.sources.contains(&number) && taken_out.analyses.is_empty() {
                messages.extend(analysis_names::faults(source, &self.analysis));
            }
            if !names.insert(&source.name) && !taken_out.names {
                messages.push("there are two sources of that name".to_owned());
            }
            if source.webhook.is_some() && self.web.listen.is_none() && !taken_out.web {
                messages.push("webhook: nothing listens for it: say listen under [web]".to_owned());
            }
            let fault = |message| ConfigError::Source { file: file(), name: source.name.clone(), message };
            faults.extend(messages.into_iter().map(fault));
        }
        let mut names = BTreeSet::new();
        for (number, receiver) in self.notify.iter().enumerate() {
            let sources = (!taken_out.names).then_some(self.source.as_slice());
            let is_twice = !names.insert(&receiver.name) && !taken_out.names;
            let own = if taken_out.receivers.contains(&number) { Vec::new() } else { receiver.faults(sources) };
            let messages = own.into_iter().chain(is_twice.then(|| "there are two receivers of that name".to_owned()));
            let fault = |message| ConfigError::Notify { file: file(), name: receiver.name.clone(), message };
            faults.extend(messages.map(fault));
        }
        let mut names = BTreeSet::new();
        for (number, analysis) in self.analysis.iter().enumerate() {
            let is_twice = !names.insert(&analysis.name) && !taken_out.names;
            let own = if taken_out.analyses.contains(&number) { Vec::new() } else { analysis.faults() };
            let messages = own.into_iter().chain(is_twice.then(|| "there are two of that name".to_owned()));
            let fault = |message| ConfigError::Analysis { file: file(), name: analysis.name.clone(), message };
            faults.extend(messages.map(fault));
        }
        if let Some(url) = self.web.public_url.as_ref().filter(|url| !is_public_url(url)) {
            faults.push(ConfigError::PublicUrl { file: file(), url: url.clone() });
        }
        let commit_urls = self.source.iter().map(|source| (format!("[[source]] {}", source.name), &source.commit_url));
        for (table, url) in std::iter::once(("[web]".to_owned(), &self.web.commit_url)).chain(commit_urls) {
            if let Some(url) = url.as_ref().filter(|url| !is_commit_url(url)) {
                faults.push(ConfigError::CommitUrl { file: file(), table, url: url.clone() });
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        match Config::parse(text, "belay.toml") {
            Ok(_) => Vec::new(),
            Err(error) => error.each().iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn all_errors_are_told_at_once() {
        let text = "[[source]]\nrepository = \"/srv/a\"\nbrunch = \"main\"\ninterval = \"soon\"\nafter = \"c\"\n\
                    [[source]]\nname = \"B\"\nrepository = \"\"\nprune_limit = \"most\"\n\
                    [[source.helm]]\nchart = \"web\"\nset = { a = [1] }\n\
                    [web]\nlisten = \"9750\"\npublic_url = \"belay\"\n\
                    [[notify]]\nname = \"ops\"\nkind = \"pager\"\nurl = \"x\"\n";
        let errors = errors(text);
        let begins = [
            "belay.toml:3:1: unknown key \"brunch\"; did you mean \"branch\"?",
            "belay.toml:4:12: ",
            "belay.toml:12:",
            "belay.toml:14:10: ",
            "belay.toml:18:8: ",
            "belay.toml: source \"default\": after \"c\" names no source of this file",
            "belay.toml: [web] public_url \"belay\"",
        ];
        assert_eq!(errors.len(), begins.len(), "{errors:#?}");
        for (error, begin) in errors.iter().zip(begins) {
            assert!(error.starts_with(begin), "{error} does not begin with {begin}");
        }
    }

    #[test]
    fn every_fault_of_a_source_and_of_a_receiver_is_told() {
        let text = "[[source]]\nname = \"A\"\nrepository = \"\"\nprune_limit = \"most\"\ninterval = \"1ms\"\n\
                    [[source]]\nname = \"b\"\nrepository = \"/srv\"\nafter = \"c\"\n\
                    [[notify]]\nname = \"o p\"\nkind = \"slack\"\nevents = []\nsources = [\"x\"]\n";
        let errors = errors(text);
        let parts = [
            "source \"A\": name \"A\" is not a DNS label",
            "source \"A\": repository is empty",
            "source \"A\": interval 1ms is too short",
            "source \"A\": prune_limit \"most\"",
            "source \"b\": after \"c\" names no source",
            "receiver \"o p\": name \"o p\"",
            "receiver \"o p\": one of url and url_file",
            "receiver \"o p\": events is empty",
            "receiver \"o p\": there is no source \"x\"",
        ];
        assert_eq!(errors.len(), parts.len(), "{errors:#?}");
        for (error, part) in errors.iter().zip(parts) {
            assert!(error.contains(part), "{error} does not say {part}");
        }
    }

    #[test]
    fn an_error_that_only_follows_from_another_is_not_told() {
        for (text, error) in [
            ("[[source]]\nrepositry = \"/srv\"\n", "belay.toml:2:1: unknown key \"repositry\""),
            ("[[source]]\nrepository = 1\n", "belay.toml:2:14: "),
            ("[[sauce]]\nrepository = \"/srv\"\n", "belay.toml:1:3: unknown key \"sauce\""),
            ("[[source]]\nrepository = \"/srv\"\n[[source.window]]\nalow = \"Sat\"\n", "belay.toml:4:1: "),
            (
                "[[source]]\nrepository = \"/srv\"\nwebhook = { secret_file = \"/s\" }\n[web]\nlisten = 1\n",
                "belay.toml:5:10: ",
            ),
            ("[[source]]\nname = 1\nrepository = \"/a\"\n[[source]]\nrepository = \"/b\"\n", "belay.toml:2:8: "),
            (
                "[[source]]\nrepository = \"/a\"\nbake = \"soon\"\nanalysis = [\"a\"]\n[[analysis]]\nname = \"a\"\nprometheus = \"http://p\"\nquery = \"up\"\nmin = 1\n",
                "belay.toml:3:8: ",
            ),
            ("[[source]]\nname = \"a\"\n", "belay.toml:1:1: missing field `repository`"),
        ] {
            let errors = errors(text);
            assert!(errors.len() == 1 && errors[0].starts_with(error), "{text}: {errors:#?}");
        }
        assert_eq!(errors(&"[[source]]\n".repeat(1000)).len(), 20, "there is a limit");
        let syntax = errors("[[source]\nrepository = /srv\nname = \"a\" \"b\"\n");
        assert!(syntax.len() > 1 && syntax.iter().all(|error| error.starts_with("belay.toml:")), "{syntax:#?}");
    }
}

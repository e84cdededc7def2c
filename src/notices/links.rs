//! The links in messages.

use std::collections::BTreeMap;

use super::message::{NoticeEvent, Notification, Test};

/// The facts in messages about a source beside those of its history.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The address at which people reach belay's pages.
    pub public_url: Option<String>,
    /// The forges' pages of commits by source, with `{commit}` in the place of its id.
    pub commit_urls: BTreeMap<String, String>,
    /// The branches that the sources follow, if they follow one.
    pub branches: BTreeMap<String, String>,
}

impl Links {
    /// Adds the links of a message.
    pub(super) fn add_to(&self, notification: &mut Notification) {
        let base = self.public_url.as_ref().map(|url| url.trim_end_matches('/'));
        let (Some(source), Some(commit)) = (&notification.source, &notification.commit) else {
            let state = if notification.sources.is_empty() { "?state=held" } else { "" };
            let says_something = notification.event != NoticeEvent::Test(Test::Test);
            notification.page = base.filter(|_| says_something).map(|base| format!("{base}/{state}"));
            return;
        };
        notification.page = base.map(|base| format!("{base}/commits/{commit}"));
        notification.forge = self.commit_urls.get(source).map(|url| url.replace("{commit}", commit.as_str()));
    }
}

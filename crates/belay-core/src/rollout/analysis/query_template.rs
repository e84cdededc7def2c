//! Queries of Prometheus with placeholders.

use std::fmt::Write as _;

/// The names of the placeholders.
const PLACEHOLDERS: [&str; 6] = ["pods", "source", "namespace", "name", "commit", "revision"];

/// A query in which `{{pods}}`, `{{source}}`, `{{namespace}}`, `{{name}}`, `{{commit}}` and `{{revision}}` stand for those of a
/// rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTemplate {
    /// Each part with the placeholder behind it.
    parts: Vec<(String, Option<&'static str>)>,
}

/// The values of a rollout.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryValues<'a> {
    /// A regular expression of the names of its pods.
    pub pods: &'a str,
    /// The source.
    pub source: &'a str,
    /// The namespace of the workload.
    pub namespace: &'a str,
    /// The name of the workload.
    pub name: &'a str,
    /// The commit.
    pub commit: &'a str,
    /// The revision; 0 for a kind without any.
    pub revision: i64,
}

impl QueryTemplate {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// Fails with the fault of a placeholder.
    pub fn parse(text: &str) -> Result<QueryTemplate, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (name, behind) = behind.split_once("}}").ok_or("\"{{\" has no \"}}\" behind it")?;
            let known = PLACEHOLDERS.into_iter().find(|known| *known == name.trim());
            let known = known
                .ok_or_else(|| format!("\"{{{{{name}}}}}\" is none of {{{{{}}}}}", PLACEHOLDERS.join("}}, {{")))?;
            parts.push((before.to_owned(), Some(known)));
            rest = behind;
        }
        parts.push((rest.to_owned(), None));
        match text.trim().is_empty() {
            true => Err("it is empty".to_owned()),
            false => Ok(QueryTemplate { parts }),
        }
    }

    /// Returns true when it asks for particular pods.
    #[must_use]
    pub fn names_pods(&self) -> bool {
        self.parts.iter().any(|(_, placeholder)| *placeholder == Some("pods"))
    }

    /// Returns the query for a rollout.
    #[must_use]
    pub fn query(&self, values: &QueryValues<'_>) -> String {
        let mut query = String::new();
        for (text, placeholder) in &self.parts {
            query.push_str(text);
            match *placeholder {
                Some("pods") => query.push_str(values.pods),
                Some("source") => query.push_str(values.source),
                Some("namespace") => query.push_str(values.namespace),
                Some("name") => query.push_str(values.name),
                Some("commit") => query.push_str(values.commit),
                // Writing to a text does not fail.
                Some("revision") => drop(write!(query, "{}", values.revision)),
                _ => {}
            }
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_stand_for_the_rollout() {
        let template = QueryTemplate::parse(
            r#"sum by (pod) (http_requests_total{pod=~"{{pods}}",app="{{ name }}"}) # {{source}} {{namespace}} {{commit}} {{revision}}"#,
        );
        let template = template.unwrap();
        assert!(template.names_pods());
        let values = QueryValues {
            pods: "web-.*",
            source: "shop",
            namespace: "front",
            name: "web",
            commit: "1a2b",
            revision: 3,
        };
        let expected = r#"sum by (pod) (http_requests_total{pod=~"web-.*",app="web"}) # shop front 1a2b 3"#;
        assert_eq!(template.query(&values), expected);
        assert!(!QueryTemplate::parse("up{job=\"web\"}").unwrap().names_pods());
    }

    #[test]
    fn a_wrong_placeholder_is_named() {
        for (text, fault) in [
            (
                "up{{pod}}",
                "\"{{pod}}\" is none of {{pods}}, {{source}}, {{namespace}}, {{name}}, {{commit}}, {{revision}}",
            ),
            ("up{{pods", "\"{{\" has no \"}}\" behind it"),
            (" ", "it is empty"),
        ] {
            assert_eq!(QueryTemplate::parse(text).unwrap_err(), fault);
        }
    }
}

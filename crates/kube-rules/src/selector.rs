//! Label selectors, as text (`app=web,tier in (a, b),!old`) and as part of objects (`matchLabels`, `matchExpressions`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api_error::ApiError;

/// All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Missing,
    Greater,
    Less,
}

impl LabelSelector {
    /// Reads the text of a selector; empty text selects everything.
    ///
    /// # Errors
    /// 400 with the unexpected text and the expected one.
    pub fn parse(text: &str) -> Result<LabelSelector, ApiError> {
        let mut parser = SelectorParser { tokens: tokens(text), at: 0 };
        parser.selector().map(LabelSelector).map_err(ApiError::bad_request)
    }

    /// Reads a selector of `matchLabels` and `matchExpressions`. `None` if it is missing or broken, which selects
    /// nothing.
    #[must_use]
    pub fn from_object(selector: &Value) -> Option<LabelSelector> {
        let selector = selector.as_object()?;
        let mut requirements = from_labels(selector.get("matchLabels").unwrap_or(&Value::Null));
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match expression["operator"].as_str()? {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Missing,
                _ => return None,
            };
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            requirements.push(LabelRequirement {
                key: expression["key"].as_str()?.to_owned(),
                operator,
                values: values.map(str::to_owned).collect(),
            });
        }
        Some(LabelSelector::sorted(requirements))
    }

    /// Returns a selector of labels that must all be there (`spec.selector` of a ReplicationController).
    #[must_use]
    pub fn from_labels(labels: &Value) -> LabelSelector {
        LabelSelector::sorted(from_labels(labels))
    }

    fn sorted(mut requirements: Vec<LabelRequirement>) -> LabelSelector {
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        LabelSelector(requirements)
    }

    /// Returns a label that everything has which is selected, if there is one that can be named.
    #[must_use]
    pub fn needed_label(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(|requirement| match (requirement.operator, requirement.values.len()) {
            (Operator::In, 1) => Some((requirement.key.as_str(), requirement.values.first()?.as_str())),
            _ => None,
        })
    }

    /// Returns true when it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true when labels, looked up by key, fulfil it.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

impl std::fmt::Display for LabelSelector {
    /// As `status.selector` of a Scale spells it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, LabelRequirement { key, operator, values }) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str(",")?;
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            match (operator, values.as_slice()) {
                (Operator::Exists, _) => write!(out, "{key}")?,
                (Operator::Missing, _) => write!(out, "!{key}")?,
                (Operator::In, [value]) => write!(out, "{key}={value}")?,
                (Operator::NotIn, [value]) => write!(out, "{key}!={value}")?,
                (Operator::In, values) => write!(out, "{key} in ({})", values.join(","))?,
                (Operator::NotIn, values) => write!(out, "{key} notin ({})", values.join(","))?,
                (Operator::Greater, values) => write!(out, "{key}>{}", values.concat())?,
                (Operator::Less, values) => write!(out, "{key}<{}", values.concat())?,
            }
        }
        Ok(())
    }
}

fn from_labels(labels: &Value) -> Vec<LabelRequirement> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .map(|(key, value)| LabelRequirement {
            key: key.clone(),
            operator: Operator::In,
            values: BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]),
        })
        .collect()
}

impl LabelRequirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|value| number(value));
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Missing => value.is_none(),
            Operator::Greater => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value > bound),
            Operator::Less => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value < bound),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectorToken {
    Word(String),
    Sign(&'static str),
    End,
}

impl SelectorToken {
    fn text(&self) -> &str {
        match self {
            SelectorToken::Word(word) => word,
            SelectorToken::Sign(sign) => sign,
            SelectorToken::End => "",
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<SelectorToken> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(SelectorToken::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!(),><".contains(c)).unwrap_or(rest.len());
            tokens.push(SelectorToken::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

struct SelectorParser {
    tokens: Vec<SelectorToken>,
    at: usize,
}

impl SelectorParser {
    fn peek(&self) -> &SelectorToken {
        self.tokens.get(self.at).unwrap_or(&SelectorToken::End)
    }

    fn next(&mut self) -> SelectorToken {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        if *self.peek() == SelectorToken::End {
            return Ok(requirements);
        }
        loop {
            let requirement = self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            match self.next() {
                SelectorToken::End => break,
                SelectorToken::Sign(",") => {
                    if !matches!(self.peek(), SelectorToken::Word(_) | SelectorToken::Sign("!")) {
                        return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let missing = *self.peek() == SelectorToken::Sign("!");
        if missing {
            self.at += 1;
        }
        let key = match self.next() {
            SelectorToken::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        let alone = matches!(self.peek(), SelectorToken::End | SelectorToken::Sign(","));
        if missing || alone {
            let operator = if missing { Operator::Missing } else { Operator::Exists };
            return Ok(LabelRequirement { key, operator, values: BTreeSet::new() });
        }
        let operator = match self.next() {
            SelectorToken::Sign("=" | "==") => Operator::In,
            SelectorToken::Sign("!=") => Operator::NotIn,
            SelectorToken::Sign(">") => Operator::Greater,
            SelectorToken::Sign("<") => Operator::Less,
            SelectorToken::Word(word) if word == "in" => return self.set(key, Operator::In),
            SelectorToken::Word(word) if word == "notin" => return self.set(key, Operator::NotIn),
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        let value = match self.peek() {
            SelectorToken::Word(_) => self.next().text().to_owned(),
            SelectorToken::End | SelectorToken::Sign(",") => String::new(),
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if matches!(operator, Operator::Greater | Operator::Less) && value.parse::<i64>().is_err() {
            return Err(format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        check_value(&key, &value)?;
        Ok(LabelRequirement { key, operator, values: BTreeSet::from([value]) })
    }

    fn set(&mut self, key: String, operator: Operator) -> Result<LabelRequirement, String> {
        let opening = self.next();
        if opening != SelectorToken::Sign("(") {
            return Err(format!("found '{}' expected: '('", opening.text()));
        }
        let mut values = BTreeSet::new();
        let mut expects_value = true;
        loop {
            match self.next() {
                SelectorToken::Word(word) if expects_value => {
                    check_value(&key, &word)?;
                    values.insert(word);
                    expects_value = false;
                }
                SelectorToken::Sign(",") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    expects_value = true;
                }
                SelectorToken::Sign(")") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    return Ok(LabelRequirement { key, operator, values });
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
    }
}

/// A qualified name: an optional DNS prefix, a slash, a name of at most 63 characters.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fine = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
    });
    if prefix_fine && !name.is_empty() && is_name(name) {
        return Ok(());
    }
    Err(format!(
        "<nil>: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must \
         start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ))
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err(format!("values[0][{key}]: Invalid value: {value:?}: must be no more than 63 bytes"));
    }
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(format!(
        "values[0][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
         'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ))
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LabelSelector;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let selector = LabelSelector::parse(selector).unwrap();
        selector.matches(|key| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value))
    }

    #[test]
    fn requirements_hold_or_not() {
        let web = &[("app", "web"), ("tier", "front"), ("n", "5")];
        for fine in [
            "",
            "app=web",
            "app==web",
            "app",
            "!old",
            "app!=db",
            "missing!=x",
            "app in (web, db)",
            "app notin (db)",
            "app=web,tier=front",
            " app = web , tier in ( front ) ",
            "n>4",
            "n<6",
            "x notin (a)",
            "app,tier",
        ] {
            assert!(matches(fine, web), "{fine}");
        }
        for wrong in ["app=db", "old", "!app", "app!=web", "app in (db)", "n>5", "app=", "x in (a)", "app>1"] {
            assert!(!matches(wrong, web), "{wrong}");
        }
        assert!(matches("app in (,web)", &[("app", "")]));
    }

    #[test]
    fn broken_selectors_are_refused_with_what_was_expected() {
        for (text, message) in [
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            (",", "unable to parse requirement: found ',', expected: identifier"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().message, message, "{text}");
        }
        for text in ["a=b=c", "a in (b", "a notin", "-a", "a=-", "a>x", "((", "a/b/c"] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().code, 400, "{text}");
        }
    }

    #[test]
    fn selectors_of_objects_are_read_and_spelled() {
        let selector = LabelSelector::from_object(&json!({
            "matchLabels": { "b": "1" },
            "matchExpressions": [
                { "key": "a", "operator": "In", "values": ["y", "x"] },
                { "key": "c", "operator": "DoesNotExist" },
                { "key": "d", "operator": "NotIn", "values": ["z"] },
            ],
        }));
        assert_eq!(selector.unwrap().to_string(), "a in (x,y),b=1,!c,d!=z");
        assert_eq!(LabelSelector::from_object(&json!(null)), None);
        assert!(LabelSelector::from_object(&json!({})).unwrap().is_empty());
        assert_eq!(LabelSelector::from_labels(&json!({ "app": "web" })).to_string(), "app=web");
    }
}

//! The parameters behind the question mark of a path.

use super::ApiError;

/// Parameters in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the text behind the question mark. Whatever can't be decoded is taken as it is.
    #[must_use]
    pub fn new(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Query(pairs.collect())
    }

    /// Returns the first value of a parameter.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter, if it is there and not empty.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// Returns true when a flag is set: there, and neither `0` nor `false`.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Returns a whole number.
    ///
    /// # Errors
    /// 400 where it is none.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ApiError::bad_request(not_a_number("ParseInt", text))),
        }
    }
}

/// Returns Go's complaint about a text that is no number.
pub fn not_a_number(function: &str, text: &str) -> String {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let fine = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if fine { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

/// Decodes `%2F` and the like; bytes that are not UTF-8 after that become replacement characters.
#[must_use]
pub fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| bytes[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Query, decode};

    #[test]
    fn parameters_are_decoded() {
        let query = Query::new("labelSelector=a%3Db,c+in+%28d%29&watch&limit=5&limit=6&dryRun=All&x=%zz&follow=false");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!((query.flag("watch"), query.flag("follow"), query.flag("none")), (Some(true), Some(false), None));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.all("limit").collect::<Vec<_>>(), ["5", "6"]);
        assert_eq!(query.get("x"), Some("%zz"));
        assert_eq!(decode("a%2Fb%"), "a/b%");
    }

    #[test]
    fn what_is_no_number_is_refused_as_the_real_server_does() {
        let message = |text: &str| Query::new(text).number("limit").unwrap_err().message;
        assert_eq!(message("limit=x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(
            message("limit=99999999999999999999"),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
    }
}

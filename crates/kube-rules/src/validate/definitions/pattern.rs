//! Checks that a text is a regular expression to Go's `regexp`, whose syntax is RE2's with Perl's additions.

/// The most that a `{n}` may repeat, by itself and all that hold each other together.
const MOST_REPEATS: i64 = 1_000;
/// The depth to which groups may hold each other.
const DEEPEST: usize = 1_000;

/// Returns the fault of a pattern, as Go says it: `missing closing ]: `[a``.
pub fn error(pattern: &str) -> Option<String> {
    let mut reader = PatternReader { whole: pattern, at: 0, open: vec![PatternGroup::default()] };
    reader.read().err().map(|(what, expression)| format!("{what}: `{expression}`"))
}

type Broken<'a> = (&'static str, &'a str);

/// A group that is being read.
#[derive(Default)]
struct PatternGroup {
    /// The total repetition of the last element; `None` if there is nothing to repeat.
    last: Option<i64>,
    /// The most that anything in it is repeated.
    most: i64,
}

struct PatternReader<'a> {
    whole: &'a str,
    at: usize,
    open: Vec<PatternGroup>,
}

impl<'a> PatternReader<'a> {
    fn rest(&self) -> &'a str {
        &self.whole[self.at..]
    }

    fn since(&self, start: usize) -> &'a str {
        &self.whole[start..self.at]
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn group(&mut self) -> &mut PatternGroup {
        if self.open.is_empty() {
            self.open.push(PatternGroup::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// Something that can be repeated has been read.
    fn atom(&mut self, repeated: i64) {
        let group = self.group();
        group.most = group.most.max(repeated);
        group.last = Some(repeated);
    }

    fn read(&mut self) -> Result<(), Broken<'a>> {
        // The beginning of the last operator of repetition.
        let mut repeat = None;
        while let Some(next) = self.rest().chars().next() {
            let start = self.at;
            let before = repeat.take();
            match next {
                '(' => self.open_group()?,
                '|' => {
                    self.at += 1;
                    self.group().last = None;
                }
                ')' => self.close_group()?,
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.at += 1;
                    self.repeated(start, before, (0, 0))?;
                    repeat = Some(start);
                }
                '{' => match self.counts() {
                    None => {
                        self.at += 1;
                        self.atom(1);
                    }
                    Some(counts) => {
                        self.repeated(start, before, counts)?;
                        repeat = Some(start);
                    }
                },
                '\\' => self.escape()?,
                _ => {
                    self.take();
                    self.atom(1);
                }
            }
        }
        if self.open.len() == 1 { Ok(()) } else { Err(("missing closing )", self.whole)) }
    }

    fn open_group(&mut self) -> Result<(), Broken<'a>> {
        let start = self.at;
        self.at += 1;
        if self.eat("?") && !self.flags(start)? {
            return Ok(());
        }
        self.open.push(PatternGroup::default());
        if self.open.len() > DEEPEST { Err(("expression nests too deeply", self.whole)) } else { Ok(()) }
    }

    /// Reads the flags after `(?`; returns true if they open a group.
    fn flags(&mut self, start: usize) -> Result<bool, Broken<'a>> {
        let rest = self.rest();
        let named = ["P<", "<"].into_iter().find(|mark| rest.starts_with(mark) && rest.len() > mark.len());
        if let Some(mark) = named {
            let Some(end) = rest.find('>') else { return Err(("invalid named capture", &self.whole[start..])) };
            self.at += end + 1;
            let name = rest.get(mark.len()..end).unwrap_or_default();
            let sound = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            return if sound { Ok(true) } else { Err(("invalid named capture", self.since(start))) };
        }
        let (mut negated, mut said) = (false, false);
        while let Some(next) = self.take() {
            match next {
                'i' | 'm' | 's' | 'U' => said = true,
                '-' if !negated => (negated, said) = (true, false),
                ':' | ')' if !negated || said => return Ok(next == ':'),
                _ => break,
            }
        }
        Err(("invalid or unsupported Perl syntax", self.since(start)))
    }

    fn close_group(&mut self) -> Result<(), Broken<'a>> {
        if self.open.len() < 2 {
            return Err(("unexpected )", self.whole));
        }
        self.at += 1;
        let most = self.open.pop().map_or(1, |group| group.most);
        self.atom(most.max(1));
        Ok(())
    }

    /// Returns `{n}`, `{n,}` or `{n,m}`: at least and at most; too large a number counts as none. Any other text is
    /// plain.
    fn counts(&mut self) -> Option<(i64, i64)> {
        let inner = &self.rest()[1..self.rest().find('}')?];
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let plain = plain && (text.len() == 1 || !text.starts_with('0'));
            plain.then(|| text.parse::<i64>().ok().filter(|number| *number < 100_000_000).unwrap_or(i64::MAX))
        };
        let counts = match inner.split_once(',') {
            None => (number(inner)?, number(inner)?),
            Some((least, "")) => (number(least)?, -1),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        self.at += inner.len() + 2;
        Some(counts)
    }

    fn repeated(&mut self, start: usize, before: Option<usize>, counts: (i64, i64)) -> Result<(), Broken<'a>> {
        let (least, most) = counts;
        let operator = self.since(start);
        if least > MOST_REPEATS || most > MOST_REPEATS || (most >= 0 && least > most) {
            return Err(("invalid repeat count", operator));
        }
        self.eat("?");
        if let Some(before) = before {
            return Err(("invalid nested repetition operator", self.since(before)));
        }
        let operator = self.since(start);
        let Some(inner) = self.group().last else {
            return Err(("missing argument to repetition operator", operator));
        };
        let times = if most < 0 { least } else { most };
        let counted = operator.starts_with('{');
        let all = if counted { inner.saturating_mul(times) } else { inner };
        if counted && (least >= 2 || most >= 2) && all > MOST_REPEATS {
            return Err(("invalid repeat count", operator));
        }
        self.atom(all);
        Ok(())
    }

    fn class(&mut self) -> Result<(), Broken<'a>> {
        let start = self.at;
        self.at += 1;
        self.eat("^");
        let mut first = true;
        while first || !self.rest().starts_with(']') {
            first = false;
            if self.posix_class()? || self.unicode_class()? || self.perl_class() {
                continue;
            }
            let from = self.at;
            let low = self.class_character(start)?;
            let rest = self.rest().as_bytes();
            if rest.len() >= 2 && rest[0] == b'-' && rest[1] != b']' {
                self.at += 1;
                let high = self.class_character(start)?;
                if high < low {
                    return Err(("invalid character class range", self.since(from)));
                }
            }
        }
        self.at += 1;
        self.atom(1);
        Ok(())
    }

    fn class_character(&mut self, start: usize) -> Result<u32, Broken<'a>> {
        match self.rest().chars().next() {
            None => Err(("missing closing ]", &self.whole[start..])),
            Some('\\') => self.character(),
            Some(next) => {
                self.at += next.len_utf8();
                Ok(u32::from(next))
            }
        }
    }

    /// Returns `[:alpha:]`, within a class.
    fn posix_class(&mut self) -> Result<bool, Broken<'a>> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let Some(rest) = self.rest().strip_prefix("[:") else { return Ok(false) };
        let Some(end) = rest.find(":]") else { return Ok(false) };
        let start = self.at;
        self.at += end + 4;
        let name = &rest[..end];
        if NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            Ok(true)
        } else {
            Err(("invalid character class range", self.since(start)))
        }
    }

    /// Returns `\pL` or `\p{Greek}`.
    fn unicode_class(&mut self) -> Result<bool, Broken<'a>> {
        let start = self.at;
        if !self.eat("\\p") && !self.eat("\\P") {
            return Ok(false);
        }
        let name = match self.take() {
            Some('{') => {
                let Some(end) = self.rest().find('}') else {
                    return Err(("invalid character class range", &self.whole[start..]));
                };
                let name = self.rest()[..end].to_owned();
                self.at += end + 1;
                name
            }
            other => other.map(String::from).unwrap_or_default(),
        };
        let name = name.strip_prefix('^').unwrap_or(&name);
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c));
        if plain && regex::Regex::new(&format!("\\p{{{name}}}")).is_ok() {
            Ok(true)
        } else {
            Err(("invalid character class range", self.since(start)))
        }
    }

    /// `\d` and its like.
    fn perl_class(&mut self) -> bool {
        ["\\d", "\\D", "\\s", "\\S", "\\w", "\\W"].iter().any(|class| self.eat(class))
    }

    /// Reads an escape, outside of classes.
    fn escape(&mut self) -> Result<(), Broken<'a>> {
        let start = self.at;
        if self.eat("\\C") {
            return Err(("invalid escape sequence", self.since(start)));
        }
        if self.eat("\\Q") {
            let quoted = self.rest().find("\\E").unwrap_or(self.rest().len());
            self.at += quoted;
            self.eat("\\E");
            if quoted > 0 {
                self.atom(1);
            }
            return Ok(());
        }
        let anchor = ["\\A", "\\b", "\\B", "\\z"].iter().any(|anchor| self.eat(anchor));
        if !anchor && !self.unicode_class()? && !self.perl_class() {
            self.character()?;
        }
        self.atom(1);
        Ok(())
    }

    /// Returns one character with a backslash before it.
    fn character(&mut self) -> Result<u32, Broken<'a>> {
        let start = self.at;
        self.at += 1;
        let Some(next) = self.take() else { return Err(("trailing backslash at end of expression", "")) };
        let octal = |reader: &PatternReader<'_>| reader.rest().starts_with(|c: char| ('0'..='7').contains(&c));
        let found = match next {
            '1'..='7' if !octal(self) => None,
            '0'..='7' => {
                let end = self.rest().bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let digits = &self.whole[self.at - 1..self.at + end];
                self.at += end;
                u32::from_str_radix(digits, 8).ok()
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(u32::from(other)),
            _ => None,
        };
        found.ok_or_else(|| ("invalid escape sequence", self.since(start)))
    }

    /// Returns `7F` or `{10FFFF}`, after `\x`.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.take()?;
        if first != '{' {
            let second = self.take();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut found = None;
        loop {
            match self.take()? {
                '}' => return found,
                digit => {
                    let value = found.unwrap_or(0) * 16 + digit.to_digit(16)?;
                    found = Some(value).filter(|value| *value <= u32::from(char::MAX));
                    found?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

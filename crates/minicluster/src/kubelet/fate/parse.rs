//! Reads fates: `ready-after=5s`, `crash-after=3s,code=2,log="no database"`, `app:never-ready;proxy:ready`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{CREATION, End, Fate, FateCause, FateStop, Pull, Readiness};

/// No text is longer, so that a fate can't be made to cost much.
const LONGEST: usize = 4096;
/// No duration is longer: a year.
const LONGEST_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

const WORDS: &str = "ready, ready-after=, never-ready, start-after=, unready-after=, unhealthy-after=, crash-after=, \
                     exit-after=, oom-after=, code=, image-pull-error, for=, evict-after=, stop-after=, hang, log=, \
                     message=";

/// The fates of a pod's containers, as one text says them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Fates {
    /// The fate of every container that is not named and is not an init container.
    pub all: Option<Fate>,
    /// The fates of single containers, by name.
    pub named: BTreeMap<String, Fate>,
}

impl Fates {
    /// Reads `[container:]item[,item…][;…]`.
    ///
    /// # Errors
    /// Fails with the fault and the allowed words.
    pub fn parse(text: &str) -> Result<Fates, String> {
        if text.len() > LONGEST {
            return Err(format!("a fate may have at most {LONGEST} characters"));
        }
        let mut fates = Fates::default();
        for section in split(text, ';')? {
            let (container, items) = match section.split_once(':') {
                Some((name, items)) if is_name(name.trim()) => (Some(name.trim()), items),
                _ => (None, section),
            };
            let fate = fate(items)?;
            let repeated = match container {
                Some(name) => fates.named.insert(name.to_owned(), fate).is_some(),
                None => fates.all.replace(fate).is_some(),
            };
            if repeated {
                return Err(format!("{} has two fates", container.unwrap_or("every container")));
            }
        }
        Ok(fates)
    }
}

/// Reads a duration: `500ms`, `3s`, `1m30s`, `2h`.
///
/// # Errors
/// Fails with its fault.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 500ms, 3s or 1m30s");
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        sum = sum.saturating_add(Duration::from_millis(number.saturating_mul(unit)));
    }
    if text.is_empty() {
        Err(wrong())
    } else if sum > LONGEST_DURATION {
        Err(format!("{text:?} is more than a year"))
    } else {
        Ok(sum)
    }
}

/// Returns one container's fate.
fn fate(text: &str) -> Result<Fate, String> {
    let mut items = FateItems::default();
    for item in split(text, ',')? {
        items.add(item.trim())?;
    }
    items.fate()
}

/// The readiness of a container in a text.
#[derive(Clone, Copy)]
enum ParsedFate {
    Ready,
    ReadyAfter(Duration),
    NeverReady,
}

/// The parts of a fate, before it is put together.
#[derive(Default)]
struct FateItems {
    ready: Option<ParsedFate>,
    end: Option<(FateCause, Duration)>,
    stop: Option<FateStop>,
    pull_fails: bool,
    texts: BTreeMap<&'static str, String>,
    durations: BTreeMap<&'static str, Duration>,
    code: Option<u8>,
}

impl FateItems {
    fn add(&mut self, item: &str) -> Result<(), String> {
        let (word, value) = match item.split_once('=') {
            Some((word, value)) => (word.trim(), Some(value.trim())),
            None => (item, None),
        };
        let time = |value: Option<&str>| duration(value.ok_or_else(|| format!("{word} needs a duration: {word}=3s"))?);
        let alone = |value: Option<&str>| match value {
            Some(_) => Err(format!("{word} takes no value")),
            None => Ok(()),
        };
        match word {
            "ready" => {
                alone(value)?;
                once(&mut self.ready, ParsedFate::Ready, "when it is ready")
            }
            "ready-after" => once(&mut self.ready, ParsedFate::ReadyAfter(time(value)?), "when it is ready"),
            "never-ready" => {
                alone(value)?;
                once(&mut self.ready, ParsedFate::NeverReady, "when it is ready")
            }
            "crash-after" => once(&mut self.end, (FateCause::Crash, time(value)?), "how it ends"),
            "exit-after" => once(&mut self.end, (FateCause::Exit, time(value)?), "how it ends"),
            "oom-after" => once(&mut self.end, (FateCause::OutOfMemory, time(value)?), "how it ends"),
            "stop-after" => once(&mut self.stop, FateStop::After(time(value)?), "how it stops"),
            "hang" => {
                alone(value)?;
                once(&mut self.stop, FateStop::Hang, "how it stops")
            }
            "image-pull-error" => {
                alone(value)?;
                self.pull_fails = true;
                Ok(())
            }
            "code" => {
                let code = value.and_then(|value| value.parse().ok());
                let code = code.ok_or_else(|| "code needs a number from 0 to 255".to_owned())?;
                once(&mut self.code, code, "the exit code")
            }
            _ => self.add_more(word, value, time),
        }
    }

    fn add_more(
        &mut self,
        word: &str,
        value: Option<&str>,
        time: impl Fn(Option<&str>) -> Result<Duration, String>,
    ) -> Result<(), String> {
        let timed = ["start-after", "unready-after", "unhealthy-after", "evict-after", "for"];
        if let Some(known) = timed.into_iter().find(|known| *known == word) {
            let twice = self.durations.insert(known, time(value)?).is_some();
            return if twice { Err(format!("{word} is said twice")) } else { Ok(()) };
        }
        if let Some(known) = ["log", "message"].into_iter().find(|known| *known == word) {
            let value = value.ok_or_else(|| format!("{word} needs a text: {word}=\"what it says\""))?;
            let twice = self.texts.insert(known, unquote(value)?).is_some();
            return if twice { Err(format!("{word} is said twice")) } else { Ok(()) };
        }
        Err(format!("{word:?} is not known; known are {WORDS}"))
    }

    fn fate(mut self) -> Result<Fate, String> {
        let end = match (self.end, self.code) {
            (None, Some(_)) => return Err("code needs crash-after or exit-after beside it".to_owned()),
            (Some((FateCause::OutOfMemory, _)), Some(_)) => {
                return Err("oom-after always ends with code 137".to_owned());
            }
            (Some((FateCause::Crash, _)), Some(0)) => {
                return Err("a crash can't end with code 0; use exit-after".to_owned());
            }
            (end, code) => end.map(|(cause, after)| {
                let usual = match cause {
                    FateCause::Exit => 0,
                    FateCause::Crash => 1,
                    FateCause::OutOfMemory => 137,
                };
                End { after, code: code.unwrap_or(usual), cause }
            }),
        };
        let heals = self.durations.remove("for");
        if heals.is_some() && !self.pull_fails {
            return Err("for needs image-pull-error beside it".to_owned());
        }
        // `ready-after` counts from the beginning of its creation, as users see it.
        let start = self.durations.remove("start-after");
        let start_after = match (start, self.ready) {
            (None, Some(ParsedFate::ReadyAfter(wait))) => CREATION.min(wait),
            (start, _) => start.unwrap_or(CREATION),
        };
        let ready = self.ready.map(|said| match said {
            ParsedFate::Ready => Readiness::After(Duration::ZERO),
            ParsedFate::ReadyAfter(wait) => Readiness::After(wait.saturating_sub(start_after)),
            ParsedFate::NeverReady => Readiness::Never,
        });
        Ok(Fate {
            start_after,
            pull: if self.pull_fails { Pull::Fails(heals) } else { Pull::Succeeds },
            ready,
            unready_after: self.durations.remove("unready-after"),
            unhealthy_after: self.durations.remove("unhealthy-after"),
            end,
            evict_after: self.durations.remove("evict-after"),
            stop: self.stop.unwrap_or(Fate::default().stop),
            log: self.texts.remove("log"),
            message: self.texts.remove("message"),
        })
    }
}

fn once<T>(place: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    if place.replace(value).is_some() { Err(format!("{what} is said twice")) } else { Ok(()) }
}

/// Splits at `separator` outside quotes.
fn split(text: &str, separator: char) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if letter == separator && !quoted => {
                parts.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    parts.push(&text[start..]);
    match parts.iter().any(|part| part.trim().is_empty()) {
        true => Err("a fate is empty".to_owned()),
        false => Ok(parts),
    }
}

fn unquote(text: &str) -> Result<String, String> {
    let Some(inner) = text.strip_prefix('"') else { return Ok(text.to_owned()) };
    let inner = inner.strip_suffix('"').ok_or_else(|| format!("{text:?}: nothing may follow the closing quote"))?;
    let mut plain = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.extend(letters.next()),
            '"' => return Err(format!("{text:?}: nothing may follow the closing quote")),
            _ => plain.push(letter),
        }
    }
    Ok(plain)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::{End, Fate, FateCause, FateStop, Fates, Pull, Readiness, duration};
    use std::time::Duration;

    fn all(text: &str) -> Fate {
        Fates::parse(text).unwrap().all.unwrap()
    }

    #[test]
    fn the_words_of_the_command_line_mean_what_they_say() {
        let seconds = Duration::from_secs;
        assert_eq!(all("ready"), Fate { ready: Some(Readiness::After(Duration::ZERO)), ..Fate::default() });
        let late = all("ready-after=5s");
        assert_eq!((late.start_after, late.ready), (seconds(1), Some(Readiness::After(seconds(4)))));
        let early = all("ready-after=200ms");
        assert_eq!((early.start_after.as_millis(), early.ready), (200, Some(Readiness::After(Duration::ZERO))));
        assert_eq!(all("never-ready").ready, Some(Readiness::Never));
        assert_eq!(all("crash-after=3s").end, Some(End { after: seconds(3), code: 1, cause: FateCause::Crash }));
        assert_eq!(all("exit-after=3s,code=1").end, Some(End { after: seconds(3), code: 1, cause: FateCause::Exit }));
        assert_eq!(all("oom-after=1m").end, Some(End { after: seconds(60), code: 137, cause: FateCause::OutOfMemory }));
        assert_eq!(all("image-pull-error").pull, Pull::Fails(None));
        assert_eq!(all("image-pull-error, for=20s").pull, Pull::Fails(Some(seconds(20))));
        assert_eq!(all("evict-after=10s").evict_after, Some(seconds(10)));
        assert_eq!(all("hang").stop, FateStop::Hang);
    }

    #[test]
    fn each_container_may_have_its_own() {
        let fates = Fates::parse(r#"app:crash-after=3s,log="a, b; c: \"d\"";sidecar:ready;never-ready"#).unwrap();
        assert_eq!(fates.named.keys().collect::<Vec<_>>(), ["app", "sidecar"]);
        assert_eq!(fates.named["app"].log.as_deref(), Some(r#"a, b; c: "d""#));
        assert_eq!(fates.all.unwrap().ready, Some(Readiness::Never));
        assert_eq!(all("log=http://x:80").log.as_deref(), Some("http://x:80"));
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        for text in [
            "",
            "reddy",
            "ready=1s",
            "ready-after",
            "ready-after=5",
            "ready-after=-5s",
            "ready,never-ready",
            "crash-after=1s,exit-after=2s",
            "crash-after=1s,code=0",
            "crash-after=1s,code=256",
            "code=3",
            "oom-after=1s,code=3",
            "for=3s",
            "hang,stop-after=1s",
            "ready;never-ready",
            "app:ready;app:ready",
            "app:",
            "log=\"open",
            "log=\"a\"b",
            "log=a,log=b",
            "ready,",
            "ready-after=9999999h",
        ] {
            assert!(Fates::parse(text).is_err(), "{text}");
        }
        assert!(Fates::parse(&"x".repeat(5000)).is_err());
    }

    #[test]
    fn durations_add_up() {
        assert_eq!(duration("1h2m3s4ms").unwrap().as_millis(), 3_723_004);
        assert!(duration("99999999999999999999s").is_err());
        assert!(duration("s").is_err());
    }
}

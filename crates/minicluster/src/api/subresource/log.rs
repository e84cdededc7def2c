//! Logs of containers: as they are, or as they grow.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::body::Body;
use crate::api::call::Call;
use crate::api::json_pointer::text;
use crate::api::query::Query;
use crate::api::reply::{Reply, ReplyContent};
use crate::api::route::Target;
use crate::api::store::{Scope, Stored};
use crate::api::{ApiError, ApiServer, Cause};
use crate::{LogLine, LogPlace};

/// The period between two reads of the container of a log that is followed, if nothing is written.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The options of a log.
#[derive(Clone, Debug, Default)]
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl ApiServer {
    /// Answers a GET of a pod's `log`.
    pub(super) fn log(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let stored = self.find(target)?;
        let options = LogOptions::new(&call.query, stored.name(), self.now())?;
        let pod = stored.value();
        let container = container(&pod, call.query.text("container"))?;
        if text(&pod, "/spec/nodeName").is_empty() {
            return Ok(Reply::new(204, ReplyContent::Other("text/plain", Body::full(Bytes::new()))));
        }
        check_state(&pod, &container, options.previous)?;
        let body = if options.follow && !options.previous {
            self.follow(target, &stored, container, options)
        } else {
            let lines = self.logs().lines(&stored.uid, &container, options.previous);
            let mut log = Printer::new(options);
            Body::full(log.first(lines.unwrap_or_default()).into())
        };
        Ok(Reply::new(200, ReplyContent::Other("text/plain", body)))
    }

    /// Sends the present log, then new lines, until the container ends.
    fn follow(&self, target: &Target, stored: &Stored, container: String, options: LogOptions) -> Body {
        let (server, target, uid) = (self.clone(), Target { subresource: None, ..target.clone() }, stored.uid.clone());
        let changed = self.logs().subscribe();
        let scope = Scope::Object(stored.path.to_string());
        let watcher = self.store().watch(&target.resource.group_resource, &scope, self.store().revision()).ok();
        let (lines, place) = self.logs().after(&uid, &container, LogPlace::default());
        let mut printer = Printer::new(options);
        let first = Bytes::from(printer.first(lines));
        let begin = (Some(first), place, printer, changed, watcher);
        Body::stream(stream::unfold(begin, move |(first, mut place, mut printer, mut changed, mut watcher)| {
            let (server, target, uid, container) = (server.clone(), target.clone(), uid.clone(), container.clone());
            async move {
                if let Some(first) = first.filter(|first| !first.is_empty()) {
                    return Some((first, (None, place, printer, changed, watcher)));
                }
                loop {
                    // In this order: text that a container writes before it ends is read after its end is seen.
                    let runs = server.find(&target).is_ok_and(|pod| *pod.uid == *uid && runs(&pod.value(), &container));
                    changed.mark_unchanged();
                    let (lines, next) = server.logs().after(&uid, &container, place);
                    place = next;
                    let more = Bytes::from(printer.next(&lines));
                    if !more.is_empty() {
                        return Some((more, (None, place, printer, changed, watcher)));
                    }
                    if !runs || printer.is_full() {
                        return None;
                    }
                    let touched = async {
                        match &mut watcher {
                            Some(watcher) => {
                                std::future::poll_fn(|context| watcher.poll_next(context)).await;
                            }
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        biased;
                        written = changed.changed() => if written.is_err() { return None },
                        () = touched => {}
                        () = tokio::time::sleep(LOOK_EVERY) => {}
                    }
                }
            }
        }))
    }
}

impl LogOptions {
    fn new(query: &Query, pod: &str, now: Timestamp) -> Result<LogOptions, ApiError> {
        let [seconds, tail, limit] =
            [query.number("sinceSeconds")?, query.number("tailLines")?, query.number("limitBytes")?];
        let time = query.text("sinceTime").map(|text| {
            text.parse::<Timestamp>().map_err(|_| {
                let layout = "2006-01-02T15:04:05Z07:00";
                ApiError::bad_request(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
            })
        });
        let time = time.transpose()?;
        let mut causes = Vec::new();
        let mut complain = |field: &str, value: i64, bound: &str| {
            causes.push(Cause {
                reason: "FieldValueInvalid",
                message: format!("Invalid value: {value}: must be greater than {bound}"),
                field: Some(field.to_owned()),
            });
        };
        if let Some(tail) = tail.filter(|tail| *tail < 0) {
            complain("tailLines", tail, "or equal to 0");
        }
        if let Some(limit) = limit.filter(|limit| *limit < 1) {
            complain("limitBytes", limit, "0");
        }
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
            complain("sinceSeconds", seconds, "0");
        }
        if time.is_some() && seconds.is_some() {
            causes.push(Cause {
                reason: "FieldValueForbidden",
                message: "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified".to_owned(),
                field: Some("[]".to_owned()),
            });
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid("", "PodLogOptions", pod, causes));
        }
        let ago = |seconds: i64| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        let size = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(LogOptions {
            follow: query.flag("follow").unwrap_or_default(),
            previous: query.flag("previous").unwrap_or_default(),
            timestamps: query.flag("timestamps").unwrap_or_default(),
            since: time.or(seconds.map(ago)),
            tail: tail.map(size),
            limit: limit.map(size),
        })
    }
}

/// Returns the container that is meant.
fn container(pod: &Value, named: Option<&str>) -> Result<String, ApiError> {
    let names_of = |part: &str| -> Vec<String> {
        let containers = pod["spec"][part].as_array().into_iter().flatten();
        containers.map(|container| text(container, "/name").to_owned()).collect()
    };
    let pod_name = text(pod, "/metadata/name");
    let own = names_of("containers");
    let all = [names_of("initContainers"), own.clone(), names_of("ephemeralContainers")].concat();
    match named {
        Some(name) if all.iter().any(|known| known == name) => Ok(name.to_owned()),
        Some(name) => Err(ApiError::bad_request(format!("container {name} is not valid for pod {pod_name}"))),
        None if own.len() == 1 => Ok(own.concat()),
        None => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .flat_map(|part| pod["status"][part].as_array().into_iter().flatten())
        .find(|status| status["name"] == container)
}

fn runs(pod: &Value, container: &str) -> bool {
    status_of(pod, container).is_some_and(|status| status["state"]["running"].is_object())
}

/// A node refuses to show logs of containers that have none yet.
fn check_state(pod: &Value, container: &str, previous: bool) -> Result<(), ApiError> {
    let name = text(pod, "/metadata/name");
    let Some(status) = status_of(pod, container) else {
        return Err(ApiError::bad_request(format!("container {container:?} in pod {name:?} is not available")));
    };
    let ended_before = status["lastState"]["terminated"].is_object();
    if previous {
        let why = format!("previous terminated container {container:?} in pod {name:?} not found");
        return if ended_before { Ok(()) } else { Err(ApiError::bad_request(why)) };
    }
    let state = &status["state"];
    if ended_before || state["running"].is_object() || state["terminated"].is_object() {
        return Ok(());
    }
    let why = match text(state, "/waiting/reason") {
        "" => " - no logs yet".to_owned(),
        "ErrImagePull" => ": image can't be pulled".to_owned(),
        "ImagePullBackOff" => ": trying and failing to pull image".to_owned(),
        reason => format!(": {reason}"),
    };
    Err(ApiError::bad_request(format!("container {container:?} in pod {name:?} is waiting to start{why}")))
}

/// Lines as text, within a limit.
struct Printer {
    options: LogOptions,
    left: usize,
}

impl Printer {
    fn new(options: LogOptions) -> Printer {
        let left = options.limit.unwrap_or(usize::MAX);
        Printer { options, left }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Returns the lines that are there at first: not those before the wanted ones.
    fn first(&mut self, mut lines: Vec<LogLine>) -> String {
        if let Some(since) = self.options.since {
            lines.retain(|line| line.at >= since);
        }
        if let Some(tail) = self.options.tail {
            let surplus = lines.len().saturating_sub(tail);
            lines.drain(..surplus);
        }
        self.next(&lines)
    }

    fn next(&mut self, lines: &[LogLine]) -> String {
        let mut out = String::new();
        for line in lines {
            if self.options.timestamps {
                let at = line.at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%9fZ ");
                out.push_str(&at.to_string());
            }
            out.push_str(&line.text);
            out.push('\n');
        }
        let mut end = out.len().min(self.left);
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        self.left = if end < out.len() { 0 } else { self.left - end };
        out.truncate(end);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<LogLine> {
        let line = |(second, text): (usize, &&str)| LogLine {
            at: Timestamp::from_second(second as i64).unwrap(),
            text: (*text).to_owned(),
        };
        texts.iter().enumerate().map(line).collect()
    }

    fn print(query: &str, texts: &[&str]) -> String {
        let now = Timestamp::from_second(10).unwrap();
        let options = LogOptions::new(&Query::new(query), "pod", now).unwrap();
        Printer::new(options).first(lines(texts))
    }

    #[test]
    fn a_part_of_a_log_is_printed() {
        let texts = &["one", "two", "three"];
        assert_eq!(print("", texts), "one\ntwo\nthree\n");
        assert_eq!(print("tailLines=1", texts), "three\n");
        assert_eq!(print("tailLines=0", texts), "");
        assert_eq!(print("sinceSeconds=9", texts), "two\nthree\n");
        assert_eq!(print("sinceTime=1970-01-01T00:00:02Z", texts), "three\n");
        assert_eq!(print("limitBytes=5", texts), "one\nt");
        assert_eq!(print("timestamps=true&tailLines=1", texts), "1970-01-01T00:00:02.000000000Z three\n");
    }

    #[test]
    fn wrong_options_are_refused() {
        let refuse = |query: &str| LogOptions::new(&Query::new(query), "p1", Timestamp::UNIX_EPOCH).unwrap_err();
        let message =
            "PodLogOptions \"p1\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(refuse("tailLines=-1").message, message);
        assert_eq!(refuse("limitBytes=0").code, 422);
        assert_eq!(refuse("sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z").code, 422);
        assert_eq!(refuse("sinceTime=foo").code, 400);
    }
}

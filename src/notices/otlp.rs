//! Spans as OTLP has them in JSON: ids as hexadecimal digits, times as nanoseconds in text, kinds and statuses as numbers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::commit_trace::{SpanAttributes, SpanStatus, TraceSpan};

/// The kind of a span that is neither a request nor an answer.
const INTERNAL: u8 = 1;
/// The name of the program, as service and as scope.
const NAME: &str = "belay";

/// Returns the body of a request that exports a trace; `resource` is what all of its spans have in common.
pub(super) fn export_request(trace: &str, spans: &[TraceSpan], resource: SpanAttributes) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let own = [("service.name", json!(NAME)), ("service.version", json!(version))];
    let resource: Vec<Value> = own.iter().chain(&resource).map(attribute).collect();
    let spans: Vec<Value> = spans.iter().map(|one| span(trace, one)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": NAME, "version": version}, "spans": spans}],
    }]})
}

fn span(trace: &str, span: &TraceSpan) -> Value {
    let events: Vec<Value> =
        span.events.iter().map(|(at, name)| json!({"timeUnixNano": nanoseconds(*at), "name": name})).collect();
    let mut value = json!({
        "traceId": trace,
        "spanId": span.id,
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": span.attributes.iter().map(attribute).collect::<Vec<Value>>(),
        "events": events,
        "status": match &span.status {
            SpanStatus::Unset => json!({}),
            SpanStatus::Ok => json!({"code": 1}),
            SpanStatus::Error(why) if why.is_empty() => json!({"code": 2}),
            SpanStatus::Error(why) => json!({"code": 2, "message": why}),
        },
    });
    if let Some(parent) = &span.parent {
        value["parentSpanId"] = json!(parent);
    }
    value
}

fn attribute((name, value): &(&'static str, Value)) -> Value {
    let value = match value {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        text => json!({"stringValue": text}),
    };
    json!({"key": name, "value": value})
}

fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

/// Returns the number of spans that a collector has not taken of a request that it has, and its words; `None` where it took
/// all of them.
pub(super) fn rejected_spans(answer: &str) -> Option<(String, String)> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let partial = &answer["partialSuccess"];
    // Numbers of 64 bits are texts in this JSON; some write them as numbers.
    let count = match &partial["rejectedSpans"] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (count != "0").then(|| (count, partial["errorMessage"].as_str().unwrap_or_default().to_owned()))
}

//! The answer of an instant query.

use std::collections::BTreeMap;

use super::PrometheusError;
use belay_core::rollout::analysis::{INFINITE, Sample};
use serde::Deserialize;

/// The most samples of an answer.
pub(super) const SAMPLES: usize = 10_000;

#[derive(Deserialize)]
struct Body {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Scalar((f64, String)),
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

/// Reads the samples of an answer with this status.
pub(super) fn samples(status: u16, body: &[u8]) -> Result<Vec<Sample>, PrometheusError> {
    let refused = |why: String| Err(PrometheusError(why));
    let read: Result<Body, _> = serde_json::from_slice(body);
    match (status, read) {
        (300..=399, _) => refused(format!("Prometheus redirects to another address ({status}): write that address")),
        (401 | 403, _) => refused(format!("Prometheus refuses these credentials ({status})")),
        (_, Ok(body)) if body.status == "error" => refused(format!("Prometheus refuses the query: {}", body.error)),
        (200..=299, Ok(Body { status, data: Some(data), .. })) if status == "success" => of_data(data),
        (200..=299, _) => refused("the answer is not one of Prometheus' API, or no vector and no scalar".to_owned()),
        _ => refused(format!("Prometheus answers with status {status}")),
    }
}

fn of_data(data: Data) -> Result<Vec<Sample>, PrometheusError> {
    let samples = match data {
        Data::Scalar(value) => vec![Series { metric: BTreeMap::new(), value }],
        Data::Vector(samples) => samples,
    };
    if samples.len() > SAMPLES {
        return Err(PrometheusError(format!(
            "the query has {} samples, and at most {SAMPLES} are read",
            samples.len()
        )));
    }
    samples.into_iter().map(sample).collect()
}

fn sample(Series { metric, value: (_, value) }: Series) -> Result<Sample, PrometheusError> {
    let number = match value.as_str() {
        "+Inf" => Some(INFINITE),
        "-Inf" => Some(-INFINITE),
        "NaN" => Some(f64::NAN),
        number => number.parse().ok().filter(|number: &f64| number.abs() <= INFINITE),
    };
    let value = number.ok_or_else(|| PrometheusError("a value is no number".to_owned()))?;
    let labels: Vec<String> = metric.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    Ok(Sample { labels: labels.join(","), pod: metric.get("pod").cloned().unwrap_or_default(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> String {
        samples(status, body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_vector_and_a_scalar_have_samples() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"n","pod":"web-1","code":"500"},"value":[1435781430.781,"1.5"]},
            {"metric":{},"value":[1435781430.781,"NaN"]},{"metric":{"pod":"a"},"value":[1,"+Inf"]}]}}"#;
        let read = samples(200, vector.as_bytes()).unwrap();
        assert_eq!(
            read[0],
            Sample { labels: r#"__name__="n",code="500",pod="web-1""#.to_owned(), pod: "web-1".to_owned(), value: 1.5 }
        );
        assert!(read[1].value.is_nan() && read[1].pod.is_empty());
        assert_eq!(read[2].value, 1e300);
        let scalar =
            r#"{"status":"success","data":{"resultType":"scalar","result":[1435781430.781,"0.25"]},"warnings":["w"]}"#;
        assert_eq!(samples(200, scalar.as_bytes()).unwrap()[0].value, 0.25);
        let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        assert_eq!(samples(200, empty.as_bytes()).unwrap(), []);
    }

    #[test]
    fn an_answer_that_is_none_says_why() {
        let failed = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected \"}\"\u001b[2J"}"#;
        for status in [200, 400, 422, 503] {
            assert_eq!(error(status, failed), "Prometheus refuses the query: parse error: unexpected \"}\"\u{1b}[2J");
        }
        for (status, body, says) in [
            (302, "", "Prometheus redirects to another address (302): write that address"),
            (401, "", "Prometheus refuses these credentials (401)"),
            (502, "<html>", "Prometheus answers with status 502"),
            (404, "{}", "Prometheus answers with status 404"),
            (200, "<html>", "the answer is not one of Prometheus' API, or no vector and no scalar"),
            (200, r#"{"status":"success"}"#, "the answer is not one of Prometheus' API, or no vector and no scalar"),
            (
                200,
                r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
                "the answer is not one of Prometheus' API, or no vector and no scalar",
            ),
            (
                200,
                r#"{"status":"success","data":{"resultType":"vector","result":[1]}}"#,
                "the answer is not one of Prometheus' API, or no vector and no scalar",
            ),
            (200, r#"{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}"#, "a value is no number"),
            (
                200,
                r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1e999"]}}"#,
                "a value is no number",
            ),
        ] {
            assert_eq!(error(status, body), says, "{body}");
        }
    }
}

//! One request and its answer: bounded in time, with refusals distinguished from an absent server and warnings kept.

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde_json::Value;

use super::credentials::without_credentials;
use super::error::{AwayCause, NOT_ENTITLED, kept_words};
use super::items::TooMuch;
use super::object_text::{read_value, too_large};
use super::response_body::{ResponseBody, broke_off};
use super::{Cluster, ClusterError, ServerRefusal};
use belay_core::manifest::{Unread, short_keys};

/// The most bytes of an error.
const ERROR_LIMIT: usize = 1024 * 1024;

/// The most wrong fields of a refused object that are kept.
const CAUSES: usize = 100;

/// The most characters of a path in an error.
const PATH_SHOWN: usize = 300;

/// The purpose of a request; named in errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose<'a> {
    /// `apply Deployment shop/web`
    pub what: &'a str,
    /// True when the request or its answer carries the values of a Secret, which must not get into an error.
    pub secret: bool,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// The body.
    pub value: Value,
    /// The texts of `Warning` headers.
    pub warnings: Vec<String>,
    /// The HTTP code.
    pub code: u16,
}

/// A request as its caller describes it. It is built when it is sent: parts that make no request are an error then.
#[derive(Debug)]
pub(super) struct Unsent {
    method: Method,
    path: String,
    accept: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
}

pub(super) fn get(path: &str) -> Unsent {
    get_as(path, "application/json")
}

/// Asks for an answer in another form.
pub(super) fn get_as(path: &str, accept: &'static str) -> Unsent {
    Unsent { accept, ..request(Method::GET, path, "application/json", Vec::new()) }
}

pub(super) fn request(method: Method, path: &str, media_type: &'static str, body: Vec<u8>) -> Unsent {
    Unsent { method, path: path.to_owned(), accept: "application/json", media_type, body }
}

impl Unsent {
    /// # Errors
    /// [`ClusterError::Refused`]: a name in the path is none, or too long, and asking again does not change that.
    pub(super) fn build(self, purpose: Purpose<'_>) -> Result<Request<Body>, ClusterError> {
        let Unsent { method, path, accept, media_type, body } = self;
        let built = Request::builder()
            .method(method)
            .uri(&path)
            .header(http::header::ACCEPT, accept)
            .header(http::header::CONTENT_TYPE, media_type)
            .body(Body::from(body));
        built.map_err(|error| {
            let shown: String = path.chars().filter(|c| !c.is_control()).take(PATH_SHOWN).collect();
            let message = format!("failed to {}: its names make no request: {error}: {shown}", purpose.what);
            let reason = "BadRequest".to_owned();
            ClusterError::Refused(ServerRefusal { code: 400, reason, message, causes: Vec::new() })
        })
    }
}

impl Cluster {
    /// Sends a request for one JSON answer.
    pub(super) async fn call(&self, purpose: Purpose<'_>, request: Unsent) -> Result<Answer, ClusterError> {
        let (code, warnings, received) = Box::pin(self.exchange(purpose, request)).await?;
        if !(200..300).contains(&code) {
            return Err(self.blame(refusal(purpose, code, &received.text)).await);
        }
        match read_value(&received.text) {
            Ok(value) => Ok(Answer { value, warnings, code }),
            Err(error @ Unread::TooLarge(_)) => Err(too_large(purpose.what, &error.to_string())),
            Err(Unread::NotJson(error)) => {
                let error = ClusterError::away(purpose.what, format!("the answer is not JSON: {error}"));
                Err(self.blame(error).await)
            }
        }
    }

    /// Sends a request for a text.
    pub(super) async fn call_text(&self, purpose: Purpose<'_>, request: Unsent) -> Result<String, ClusterError> {
        let (code, _, received) = Box::pin(self.exchange(purpose, request)).await?;
        if !(200..300).contains(&code) {
            return Err(self.blame(refusal(purpose, code, &received.text)).await);
        }
        Ok(String::from_utf8_lossy(&received.text).into_owned())
    }

    /// Sends a request, and hands on its answer while it arrives; `false` where `take` wanted no more of it.
    pub(super) async fn stream(
        &self,
        purpose: Purpose<'_>,
        request: Unsent,
        take: &mut (dyn FnMut(&[u8]) -> Result<bool, TooMuch> + Send),
    ) -> Result<bool, ClusterError> {
        let request = request.build(purpose)?;
        let mut arriving = self.large.answer_to(request.uri().path());
        let exchange = async {
            let response = self.send(request).await?;
            let code = response.status().as_u16();
            let mut body = response.into_body();
            if !(200..300).contains(&code) {
                let body = Limited::new(body, ERROR_LIMIT).collect().await.map_err(broke_off)?;
                return Ok((code, Err(refusal(purpose, code, &body.to_bytes()))));
            }
            while let Some(bytes) = arriving.next(&mut body).await? {
                if !take(&bytes).map_err(|error| error.to_string())? {
                    return Ok((code, Ok(false)));
                }
            }
            Ok((code, Ok(true)))
        };
        match Box::pin(self.in_time(purpose, exchange)).await?.1 {
            Ok(whole) => Ok(whole),
            Err(error) => Err(self.blame(error).await),
        }
    }

    /// Sends a request and counts it by its answer.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, String> {
        let verb = request.method().clone();
        // Boxed: thousands of rollouts wait side by side, and each holds the request that it makes.
        let answer = Box::pin(self.client.send(request)).await;
        self.metrics.requested(verb.as_str(), answer.as_ref().ok().map(|answer| answer.status().as_u16()));
        answer.map_err(|error| without_credentials(&error))
    }

    /// Sends a request. It is boxed by the caller: thousands of rollouts wait side by side, and few of them for an
    /// answer.
    async fn exchange(
        &self,
        purpose: Purpose<'_>,
        request: Unsent,
    ) -> Result<(u16, Vec<String>, ResponseBody), ClusterError> {
        let request = request.build(purpose)?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let arriving = self.large.answer_to(uri.path());
        let exchange = async {
            let response = self.send(request).await?;
            let (code, warnings) = (response.status().as_u16(), warnings(&response));
            Ok((code, (warnings, ResponseBody::from(response.into_body(), arriving).await?)))
        };
        let answer = self.in_time(purpose, self.while_entitled(&method, &uri, exchange)).await;
        answer.map(|(code, (warnings, received))| (code, warnings, received))
    }

    /// Does an exchange within the time limit of requests, and notes the code of the API server's answer, or that it
    /// did not answer. An exchange without an answer is an outage only if the server is not ready either.
    pub(super) async fn in_time<T>(
        &self,
        purpose: Purpose<'_>,
        exchange: impl Future<Output = Result<(u16, T), String>>,
    ) -> Result<(u16, T), ClusterError> {
        let (limit, began) = (self.request_timeout, self.clock.steady());
        let answer = tokio::time::timeout(limit, exchange).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")));
        let is_answered = match &answer {
            // A proxy, or a server without its store, answers in its place.
            Ok((code, _)) if !matches!(code, 502..=504) => true,
            // It was not sent at all.
            Err(message) if message == NOT_ENTITLED => false,
            _ => Box::pin(self.is_ready()).await,
        };
        match &answer {
            Err(message) if !is_answered => self.outage.failed(message),
            _ => self.outage.answered(),
        }
        self.note(is_answered, began);
        answer.map_err(|message| match ClusterError::silence(purpose.what, message) {
            silence if is_answered => silence.of_ready_server(),
            silence => silence,
        })
    }
}

fn warnings(response: &Response<Body>) -> Vec<String> {
    let headers = response.headers().get_all(http::header::WARNING).iter();
    headers.filter_map(|header| warning_text(header.to_str().ok()?)).collect()
}

/// Returns the text of `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1;
    let text = quoted.rsplit_once('"')?.0;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// The words of answers of admission checks, which have read the object.
const CHECKED: [&str; 3] = ["admission", "ValidatingAdmissionPolicy", "exceeded quota"];

/// Sorts a failed answer by whose fault it is.
pub(super) fn refusal(purpose: Purpose<'_>, code: u16, body: &[u8]) -> ClusterError {
    let status = read_value(body).unwrap_or_default();
    let text = |value: &Value| kept_words(value.as_str().unwrap_or_default());
    let reason = text(&status["reason"]);
    let message = match text(&status["message"]) {
        message if message.is_empty() => format!("HTTP {code}"),
        message => message,
    };
    let details = &status["details"];
    let what = purpose.what.to_owned();
    let is_busy = matches!(code, 408 | 410 | 425 | 429 | 500..=599);
    // The API server itself answers in plain text for a path that it does not serve.
    let is_the_servers =
        status["kind"] == "Status" || status["reason"].is_string() || body.starts_with(b"404 page not found");
    if !is_the_servers && !is_busy && code != 401 {
        // A page of a proxy says nothing about the object.
        let message = format!("HTTP {code}, with an answer that is not the API server's");
        return ClusterError::Away { what, message, retry_after_seconds: None, because: AwayCause::Busy };
    }
    match code {
        404 if details["kind"] == "namespaces" => {
            ClusterError::Missing { what: format!("namespace {}", text(&details["name"])), message }
        }
        404 if details.get("name").is_none() => ClusterError::Missing { what: "its kind".to_owned(), message },
        403 if let Some(what) = terminating_namespace(details) => ClusterError::InDeletion { what, message },
        405 if message.contains("while custom resource definition is terminating") => {
            ClusterError::InDeletion { what: "CustomResourceDefinition of its kind".to_owned(), message }
        }
        // A webhook or another admission check has read the object and says no; anything else is a matter of rights.
        403 if !CHECKED.iter().any(|words| message.contains(words)) => ClusterError::Denied { what, message },
        401 => {
            let advice = "it does not accept belay's credentials, which are read again when they change: see that the \
                          kubeconfig's token or certificate is valid";
            ClusterError::Denied { what, message: format!("{message}: {advice}") }
        }
        // The API server answers so when an applied object does not fit its schema.
        500 if message.contains("failed to create typed patch object") => {
            ClusterError::Refused(refused(purpose, code, "Invalid".to_owned(), message, details))
        }
        _ if is_busy => {
            let seconds = details["retryAfterSeconds"].as_u64().and_then(|seconds| seconds.try_into().ok());
            ClusterError::Away { what, message, retry_after_seconds: seconds, because: AwayCause::Busy }
        }
        _ => ClusterError::Refused(refused(purpose, code, reason, message, details)),
    }
}

/// Returns the namespace that takes no new objects because it is being deleted: `namespace shop`.
fn terminating_namespace(details: &Value) -> Option<String> {
    let mut causes = details["causes"].as_array()?.iter();
    let cause = causes.find(|cause| cause["reason"] == "NamespaceTerminating")?;
    // `namespace shop is being terminated`
    let name = cause["message"].as_str().and_then(|message| message.split_whitespace().nth(1));
    Some(name.map_or_else(|| "namespace".to_owned(), |name| format!("namespace {}", kept_words(name))))
}

fn refused(purpose: Purpose<'_>, code: u16, reason: String, message: String, details: &Value) -> ServerRefusal {
    let causes = details["causes"].as_array().into_iter().flatten().take(CAUSES);
    let cause = |cause: &Value| {
        let field = cause["field"].as_str().unwrap_or_default();
        let field = if purpose.secret { short_keys(field) } else { kept_words(field) };
        let message = if purpose.secret { &cause["reason"] } else { &cause["message"] };
        (field, kept_words(message.as_str().unwrap_or_default()))
    };
    let causes: Vec<(String, String)> = causes.map(cause).collect();
    let message = if purpose.secret {
        // The server quotes values; name the wrong fields, and nothing that it says about them.
        let fields = causes.iter().map(|(field, _)| field.as_str()).filter(|field| !field.is_empty());
        let why = fields.map(str::to_owned).chain(without_values(&message)).collect::<Vec<_>>().join(", ");
        format!("the API server refuses the Secret ({reason}{}{why})", if why.is_empty() { "" } else { ": " })
    } else {
        message
    };
    ServerRefusal { code, reason, message, causes }
}

/// Returns why a Secret is refused, as far as the server says it in words that hold none of its values. A policy or a
/// webhook may quote a value behind its name.
fn without_values(message: &str) -> Option<String> {
    const IMMUTABLE: &str = "field is immutable";
    let between = |begin: &str, end: &str| {
        let from = message.find(begin)?;
        let length = message[from..].find(end)? + end.len();
        Some(message[from..from + length].to_owned())
    };
    let quota = message.find("exceeded quota: ").map(|from| message[from..].to_owned());
    quota
        .or_else(|| between("ValidatingAdmissionPolicy '", "denied request"))
        .or_else(|| between("admission webhook \"", "denied the request"))
        .or_else(|| message.contains(IMMUTABLE).then(|| IMMUTABLE.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::rollout::ReasonCode;
    use serde_json::json;

    const PURPOSE: Purpose<'static> = Purpose { what: "apply Deployment shop/web", secret: false };

    fn sorted(code: u16, status: &Value) -> ClusterError {
        let mut status = status.clone();
        status["kind"] = json!("Status");
        refusal(PURPOSE, code, status.to_string().as_bytes())
    }

    /// An aggregated API server may say as much as an answer may have, about each object.
    #[test]
    fn little_is_kept_of_long_words() {
        const MOST: usize = 1 << 20;
        let long = "x".repeat(1 << 20);
        let cause = json!({"field": long, "message": long, "reason": "NamespaceTerminating"});
        let details = json!({"name": long, "kind": "namespaces", "causes": vec![cause; 5]});
        let many = json!({"causes": vec![json!({"field": "a", "message": "b"}); 100_000], "name": "a", "kind": "b"});
        for code in [400, 403, 404, 405, 409, 422, 429, 500] {
            for details in [&details, &many, &json!({})] {
                let error = sorted(code, &json!({"reason": long, "message": long, "details": details}));
                let kept = format!("{error:?}").len();
                assert!(kept < MOST, "{code}: {kept} bytes");
            }
        }
        let away = ClusterError::away("list", long.clone()).to_string();
        assert!(away.len() < MOST && ClusterError::silence("list", long).to_string().len() < MOST);
    }

    #[test]
    fn faults_are_sorted() {
        let invalid = json!({"reason": "Invalid", "message": "no", "details": {"name": "web", "kind": "Deployment",
            "causes": [{"field": "spec.replicas", "message": "must be positive"}]}});
        let ClusterError::Refused(refusal) = sorted(422, &invalid) else { panic!("422 is the commit's fault") };
        assert_eq!(refusal.causes, [("spec.replicas".to_owned(), "must be positive".to_owned())]);
        let namespace = json!({"reason": "NotFound", "message": "namespaces \"shop\" not found",
            "details": {"name": "shop", "kind": "namespaces"}});
        assert!(matches!(sorted(404, &namespace), ClusterError::Missing { what, .. } if what == "namespace shop"));
        assert!(matches!(
            sorted(404, &json!({"message": "the server could not find the requested resource", "details": {}})),
            ClusterError::Missing { .. }
        ));
        let cause = json!({"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"});
        let going = [
            (sorted(403, &json!({"message": "no", "details": {"causes": [cause]}})), "namespace shop"),
            (
                sorted(405, &json!({"message": "create not allowed while custom resource definition is terminating"})),
                "CustomResourceDefinition of its kind",
            ),
        ];
        for (error, thing) in going {
            let reason = error.to_reason();
            assert_eq!(reason.code, ReasonCode::DeletionHangs);
            assert!(error.is_the_worlds() && error.is_waited_for_with_a_limit() && !error.is_own());
            assert!(reason.message.starts_with(&format!("waits for the {thing}, which is being deleted")), "{reason}");
        }
        assert!(matches!(sorted(403, &json!({"message": "User \"x\" cannot patch"})), ClusterError::Denied { .. }));
        assert!(matches!(
            sorted(403, &json!({"message": "admission webhook \"a\" denied the request"})),
            ClusterError::Refused(_)
        ));
        assert!(matches!(
            sorted(429, &json!({"details": {"retryAfterSeconds": 3}})),
            ClusterError::Away { retry_after_seconds: Some(3), .. }
        ));
        let uid = json!({"reason": "Conflict", "message": "Precondition failed: UID in precondition: a, UID in object meta: b"});
        assert!(matches!(sorted(409, &uid), ClusterError::Refused(_)));
        assert!(matches!(refusal_of(503, b"<html>"), ClusterError::Away { message, .. } if message == "HTTP 503"));
    }

    fn refusal_of(code: u16, body: &[u8]) -> ClusterError {
        refusal(PURPOSE, code, body)
    }

    #[test]
    fn an_answer_that_is_not_the_api_servers_refuses_nothing() {
        let status = json!({"kind": "Status", "reason": "Invalid", "message": "spec: Required value"}).to_string();
        for code in [101, 400, 403, 404, 405, 409, 413, 418, 422, 431, 999] {
            let said = refusal_of(code, status.as_bytes());
            assert!(!matches!(said, ClusterError::Away { .. }), "{code}: {said}");
            for body in ["", "<html>Request Header Or Cookie Too Large</html>", "[]", "{\"error\":\"no\"}"] {
                let error = refusal_of(code, body.as_bytes());
                assert!(matches!(error, ClusterError::Away { because: AwayCause::Busy, .. }), "{code} {body}: {error}");
            }
        }
        assert!(matches!(refusal_of(404, b"404 page not found\n"), ClusterError::Missing { .. }));
    }

    #[test]
    fn a_key_of_a_secret_that_may_be_a_value_is_not_shown() {
        let purpose = Purpose { secret: true, ..PURPOSE };
        for key in ["hunter2 Geheim", "hunter2Geheimhunter2Geheimhunter2Geheim"] {
            let status = json!({"reason": "Invalid", "message": format!("data[{key}]: Invalid value: \"{key}\""),
                "details": {"name": "s", "causes": [{"field": format!("data[{key}]"), "reason": "FieldValueInvalid"}]}});
            let error = format!("{:?}", refusal(purpose, 422, status.to_string().as_bytes()));
            assert!(!error.contains("hunter2") && error.contains("data[***]"), "{error}");
        }
    }

    #[test]
    fn a_refused_secret_shows_fields_and_no_values() {
        let purpose = Purpose { secret: true, ..PURPOSE };
        let status = json!({"reason": "Invalid", "message": "data[a]: Invalid value: \"hunter2\"", "details": {"name": "s",
            "causes": [{"field": "data[a]", "reason": "FieldValueInvalid", "message": "Invalid value: \"hunter2\""}]}});
        let error = format!("{:?}", refusal(purpose, 422, status.to_string().as_bytes()));
        assert!(!error.contains("hunter2") && error.contains("data[a]"), "{error}");
    }

    #[test]
    fn a_refused_secret_says_why_in_words_without_values() {
        let table = [
            (
                "secrets \"s\" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=0, limited: count/secrets=0",
                "exceeded quota: q, requested: count/secrets=1, used: count/secrets=0, limited: count/secrets=0",
            ),
            (
                "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not hunter2",
                "ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
            ),
            (
                "admission webhook \"v.example.com\" denied the request: hunter2 is too short",
                "admission webhook \"v.example.com\" denied the request",
            ),
            ("data: Forbidden: field is immutable when `immutable` is set", "field is immutable"),
            ("Secret \"s\" is invalid: data[a]: Invalid value: \"hunter2\"", ""),
        ];
        let purpose = Purpose { secret: true, ..PURPOSE };
        for (message, expected) in table {
            let status = json!({"reason": "Forbidden", "message": message, "details": {"name": "s"}});
            let code = if message.contains("forbidden") || message.contains("webhook") { 403 } else { 422 };
            let error = refusal(purpose, code, status.to_string().as_bytes()).to_string();
            let why = if expected.is_empty() { String::new() } else { format!(": {expected}") };
            assert_eq!(error, format!("the API server refuses the Secret (Forbidden{why})"));
        }
    }

    #[test]
    fn what_makes_no_request_is_an_error() {
        for path in ["/apis/ex.ample com/v1", "/api/v1/namespaces/a\nb", "", &format!("/api/{}", "a".repeat(70_000))] {
            let error = get(path).build(PURPOSE).unwrap_err();
            let ClusterError::Refused(refusal) = error else { panic!("asking again does not change it") };
            assert!(refusal.message.len() < 1000 && !refusal.message.contains('\n'), "{refusal}");
        }
        assert!(get("/api/v1/nodes/a?b=c%20d").build(PURPOSE).is_ok());
    }

    #[test]
    fn warnings_are_unquoted() {
        assert_eq!(
            warning_text(r#"299 - "unknown field \"spec.foo\"""#).as_deref(),
            Some("unknown field \"spec.foo\"")
        );
    }
}

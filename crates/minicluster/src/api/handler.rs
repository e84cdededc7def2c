//! Handles a request: finds its sender and its target, and has it answered.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};

use super::access::Peer;
use super::body::Body;
use super::call::{Call, User, read_body};
use super::negotiate::Negotiated;
use super::query::Query;
use super::reply::Reply;
use super::route::{Route, Target, route};
use super::{ApiError, ApiServer, timeout};

/// The longest time until the body of a request has come.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason for which a body could not be received. The answer is JSON, even if the client accepts other forms.
struct BodyError(ApiError);

impl ApiServer {
    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        let (parts, body) = request.into_parts();
        let refused = timeout::check(&parts.uri).err();
        let user = refused.map_or_else(
            || self.authenticator().authenticate(self.authorizer(), &parts.headers, parts.extensions.get::<Peer>()),
            Err,
        );
        let mut call = Call {
            path: parts.uri.path().to_owned(),
            query: Query::new(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body: Bytes::new(),
            user: User::default(),
        };
        match user {
            Ok(user) => call.user = user,
            Err(error) => return Reply::from(error).write(&Negotiated::for_errors(&call)),
        }
        let how = Negotiated::for_errors(&call);
        let in_json = Negotiated::plain(&call);
        let headers_alone = call.method == Method::HEAD;
        let reply = AssertUnwindSafe(self.reply(call, body)).catch_unwind().await.unwrap_or_else(|_| {
            let message = "This request caused apiserver to panic. Look in the logs for details.";
            Ok(ApiError::new(500, "InternalError", message).into())
        });
        let response = match reply {
            Ok(reply) => reply.write(&how),
            Err(BodyError(error)) => Reply::from(error).write(&in_json),
        };
        if headers_alone { response.map(|_| Body::full(Bytes::new())) } else { response }
    }

    /// Answers a call whose sender is known. Its body is read only once it is known that the sender may ask for this.
    async fn reply<B>(&self, mut call: Call, body: B) -> Result<Reply, BodyError>
    where
        B: http_body::Body + Send,
        B::Data: Send,
    {
        let route = route(&self.registry(), &call.path);
        if let Err(refused) = self.permit(&call, &route) {
            return Ok(refused);
        }
        let carries_body = call.method != Method::GET && call.method != Method::HEAD;
        if carries_body && matches!(route, Route::Objects(_)) {
            let read = tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await;
            let late = || Err(ApiError::new(408, "Timeout", "the body of the request did not come in time"));
            let bytes = read.unwrap_or_else(|_| late()).map_err(BodyError)?;
            if let Err(error) = call.read(bytes) {
                return Ok(error.into());
            }
        }
        let reply = self.dispatch(&call, route).await.unwrap_or_else(Reply::from);
        // No answer is sent for a write that is not in the file yet.
        self.store().saved().await;
        Ok(reply)
    }

    /// Refuses a request that the sender may not make, before it is known whether there is such a thing.
    fn permit(&self, call: &Call, route: &Route) -> Result<(), Reply> {
        match route {
            Route::Objects(target) => {
                let allowed = self.authorizer().authorize(call, target, served_verb(call, target).unwrap_or("get"));
                allowed.map_err(|error| Reply::from(error).warn_first(target.resource.deprecation()))
            }
            Route::NotBelow(_) => Ok(()),
            _ => self.authorizer().authorize_path(call).map_err(Reply::from),
        }
    }

    async fn dispatch(&self, call: &Call, route: Route) -> Result<Reply, ApiError> {
        match route {
            Route::Objects(target) => {
                let reply = self.objects(call, &target).await;
                Ok(reply.unwrap_or_else(Reply::from).warn_first(target.resource.deprecation()))
            }
            Route::NotBelow(target) => {
                let definition = &target.resource.definition;
                let name = target.name.as_deref().unwrap_or_default();
                let warning = target.resource.deprecation();
                let missing = ApiError::not_found(&definition.group, &definition.resource, name);
                Ok(Reply::from(missing).warn(warning.into_iter().collect()))
            }
            Route::UnknownResource => Err(ApiError::no_such_resource()),
            Route::Health { endpoint, check } => self.health(call, &endpoint, check.as_deref()),
            Route::Unknown => Ok(Reply::text(404, "404 page not found\n")),
            _ if call.method != Method::GET => Err(ApiError::method_not_allowed()),
            Route::Paths => Ok(self.paths()),
            Route::CoreVersions => self.core_versions(call),
            Route::Groups => self.groups(call),
            Route::Group(group) => self.group(call, &group),
            Route::Resources { group, version } => self.resources(call, &group, &version),
            Route::Version => Ok(self.version()),
            Route::OpenApi2 => self.openapi_version2(call),
            Route::OpenApi3 => Ok(self.openapi_index()),
            Route::OpenApi3Document(path) => self.openapi_document(call, &path),
        }
    }

    async fn objects(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let single = target.name.is_some();
        let status = target.subresource.as_deref() == Some("status");
        let verb = served_verb(call, target);
        let plain = target.subresource.is_none();
        if target.resource.is("", "componentstatuses") && call.method == Method::GET {
            return if single { self.component_status(call, target) } else { self.component_statuses(call, target) };
        }
        match verb {
            Some("get") if single && (plain || status) => self.get(call, target),
            Some("list" | "watch") if plain => self.list(call, target),
            Some(verb) if !plain && !status => {
                let name = target.subresource.as_deref().unwrap_or_default();
                self.below(call, target, name, verb).await
            }
            Some("create") if plain => {
                if target.resource.definition.namespaced && target.namespace.is_none() {
                    return Err(ApiError::method_not_allowed());
                }
                match target.resource.definition.group.as_str() {
                    "authentication.k8s.io" | "authorization.k8s.io" => self.review(call, target),
                    "" if target.resource.is("", "bindings") => self.bind(call, target),
                    _ => {
                        self.admission().await_default_account(call, target).await;
                        self.create(call, target)
                    }
                }
            }
            Some("update") if plain || status => self.update(call, target),
            Some("patch") if plain || status => {
                self.admission().await_default_account(call, target).await;
                self.patch(call, target)
            }
            Some("delete") if plain => self.delete(call, target),
            Some("deletecollection") if plain => self.delete_collection(call, target).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

/// Returns the verb that a call asks for, if the resource serves it.
fn served_verb(call: &Call, target: &Target) -> Option<&'static str> {
    verb(call, target).filter(|verb| match &target.subresource {
        Some(name) => target.resource.subresource(name).is_some_and(|known| known.verbs.iter().any(|has| has == verb)),
        None => target.resource.has_verb(verb),
    })
}

/// Returns the verb that discovery knows for a method on such a path.
fn verb(call: &Call, target: &Target) -> Option<&'static str> {
    let single = target.name.is_some();
    Some(match call.method {
        Method::GET if target.watch => "watch",
        Method::GET if single => "get",
        Method::GET if call.query.flag("watch") == Some(true) => "watch",
        Method::GET => "list",
        Method::POST if !single || target.subresource.is_some() => "create",
        Method::PUT if single => "update",
        Method::PATCH if single => "patch",
        Method::DELETE if single => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().answer(request).map(Ok))
    }
}

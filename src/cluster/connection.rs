//! The line to an API server: what its credentials are is read again when the server does not accept them, and when the
//! files change that they come from; what is wrong with the connection is said with the server and what to do.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::{AuthError, Body};
use tokio::time::Instant;
use tower::BoxError;
use tracing::{Instrument as _, debug, info, warn};

use super::credentials::without_credentials;
use super::redirect::Redirect;
use super::unreachable::Unreachable;
use crate::interim_answers::with_few_interim_answers;
use crate::user_agent::AGENT;

/// The shortest period between two checks that the files have changed: only when something is asked of the server.
const LOOK: Duration = Duration::from_secs(10);
/// The time for which an answer of the files is believed that did not help.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The way to connect to an API server.
pub struct Connector {
    /// The server, in the form that a person uses: its URL.
    pub server: String,
    /// A number that changes with the files that the connection comes from.
    pub stamp: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Reads them, and makes a client; else why not.
    pub connect: Box<dyn Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync>,
}

/// Returns the text of an error with all its causes, each once.
fn whole(error: &(dyn Error + 'static)) -> String {
    // The client's own name for it helps nobody.
    let error = error.downcast_ref::<kube::Error>().and_then(kube::Error::source).unwrap_or(error);
    let mut text = String::new();
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if inner.is::<AuthError>() {
            return without_credentials(error);
        }
        let says = inner.to_string();
        if !text.contains(&says) {
            let colon = if text.is_empty() { "" } else { ": " };
            text.push_str(colon);
            text.push_str(&says);
        }
        cause = inner.source();
    }
    text
}

/// The connection in use.
struct Present {
    client: Client,
    /// The number of times that it was renewed.
    number: u64,
    stamp: u64,
    looked: Instant,
    /// The time of the last attempt to renew it.
    renewed: Option<Instant>,
    /// The reason for which it could not be.
    trouble: Option<String>,
}

struct Connection {
    connector: Connector,
    present: Mutex<Present>,
    /// One at a time reads the files.
    renewing: tokio::sync::Mutex<()>,
}

/// Returns a client whose connection is renewed if the server does not accept its credentials, and if the files change.
///
/// # Errors
/// Fails when no client can be made in the first place.
pub async fn connect(connector: Connector) -> Result<Client, String> {
    let stamp = (connector.stamp)();
    let client = (connector.connect)().await?;
    let namespace = client.default_namespace().to_owned();
    let looked = Instant::now();
    let present = Present { client, number: 0, stamp, looked, renewed: None, trouble: None };
    let connection =
        Arc::new(Connection { connector, present: Mutex::new(present), renewing: tokio::sync::Mutex::default() });
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let connection = Arc::clone(&connection);
        connection.carry(request)
    });
    Ok(Client::new(service, namespace))
}

impl Connection {
    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> (Client, u64) {
        let present = self.present();
        (present.client.clone(), present.number)
    }

    async fn carry(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.look().await;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let again = || Request::from_parts(parts.clone(), Body::from(body.to_vec()));
        let (client, number) = self.client();
        let answer = self.send(&client, again()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !self.renewed(number, "401").await {
            return Ok(answer);
        }
        self.send(&self.client().0, again()).await
    }

    async fn send(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let server = &self.connector.server;
        let sent = with_few_interim_answers(request, |request| client.send(request)).await;
        let sent = sent.map_err(|error| error.to_string()).and_then(|sent| sent.map_err(|error| whole(&error)));
        match sent {
            Ok(answer) => Redirect::of(server, &answer).map_or(Ok(answer), |redirect| Err(redirect.into())),
            Err(cause) => Err(Unreachable { server: server.clone(), cause }.into()),
        }
    }

    /// Renews the connection if the files have changed.
    async fn look(self: &Arc<Self>) {
        let number = {
            let mut present = self.present();
            if present.looked.elapsed() < LOOK {
                return;
            }
            present.looked = Instant::now();
            present.number
        };
        let stamp = (self.connector.stamp)();
        if self.present().stamp != stamp {
            self.renewed(number, "its files have changed").await;
        }
    }

    /// Renews the connection, unless somebody did since it had this number. Returns true when it is another one now.
    /// The task is polled also while the caller waits for something else: the lock is never held by a future that
    /// stands still.
    async fn renewed(self: &Arc<Self>, number: u64, why: &'static str) -> bool {
        let connection = Arc::clone(self);
        let renewing = tokio::spawn(async move { connection.renew(number, why).await }.in_current_span());
        renewing.await.unwrap_or_default()
    }

    async fn renew(&self, number: u64, why: &str) -> bool {
        let _one = self.renewing.lock().await;
        {
            let mut present = self.present();
            if present.number != number {
                return true;
            }
            if present.renewed.is_some_and(|at| at.elapsed() < TRY_AGAIN) {
                return false;
            }
            present.renewed = Some(Instant::now());
        }
        let stamp = (self.connector.stamp)();
        let made = (self.connector.connect)().await;
        let mut present = self.present();
        match made {
            Ok(client) => {
                let server = &self.connector.server;
                if present.stamp == stamp {
                    debug!(server, why, "read the kubeconfig again: it has not changed");
                } else {
                    info!(server, why, "read the kubeconfig again, and connects anew");
                }
                present.client = client;
                present.number += 1;
                present.stamp = stamp;
                present.trouble = None;
                true
            }
            Err(error) => {
                if present.trouble.as_ref() != Some(&error) {
                    warn!(error, why, "failed to read the kubeconfig again; belay goes on with what it had");
                    present.trouble = Some(error);
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cluster::{AwayCause, Cluster, ClusterError};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Returns a client of a server that accepts only the credential `valid`.
    fn client(shown: u64, valid: &Arc<AtomicU64>) -> Client {
        let valid = Arc::clone(valid);
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.headers()[USER_AGENT], AGENT);
            let accepted = valid.load(Ordering::Relaxed) == shown;
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let code = if accepted { 200 } else { 401 };
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.to_vec())).unwrap())
            }
        });
        Client::new(service, "shop")
    }

    /// Returns a connection, the content of its file, and the credential that the server accepts.
    async fn connection() -> (Client, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (file, valid) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(1)));
        let (stamp, of, shown) = (Arc::clone(&file), Arc::clone(&valid), Arc::clone(&file));
        let connector = Connector {
            server: "https://cluster.example.com:6443".to_owned(),
            stamp: Box::new(move || stamp.load(Ordering::Relaxed)),
            connect: Box::new(move || {
                let (shown, valid) = (shown.load(Ordering::Relaxed), Arc::clone(&of));
                Box::pin(async move { if shown == 0 { Err("broken".to_owned()) } else { Ok(client(shown, &valid)) } })
            }),
        };
        (connect(connector).await.unwrap(), file, valid)
    }

    async fn answer(client: &Client) -> (u16, Vec<u8>) {
        let request = Request::patch("/x").body(Body::from(b"body".to_vec())).unwrap();
        let answer = client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        (code, answer.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_are_not_accepted_are_read_again() {
        let (client, file, valid) = connection().await;
        assert_eq!(answer(&client).await, (200, b"body".to_vec()));
        file.store(2, Ordering::Relaxed);
        valid.store(2, Ordering::Relaxed);
        assert_eq!(answer(&client).await, (200, b"body".to_vec()), "asked again with what is new");
        // The file is not renewed yet.
        valid.store(3, Ordering::Relaxed);
        tokio::time::sleep(TRY_AGAIN).await;
        assert_eq!(answer(&client).await.0, 401);
        file.store(3, Ordering::Relaxed);
        assert_eq!(answer(&client).await.0, 401, "not at every request");
        tokio::time::sleep(TRY_AGAIN).await;
        assert_eq!(answer(&client).await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_change_are_read_again_unless_they_are_broken() {
        let (client, file, _) = connection().await;
        file.store(2, Ordering::Relaxed);
        assert_eq!(answer(&client).await.0, 200, "nobody has looked");
        tokio::time::sleep(LOOK).await;
        assert_eq!(answer(&client).await.0, 401, "what is new is used");
        file.store(0, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
        assert_eq!(answer(&client).await.0, 401);
        file.store(1, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
        assert_eq!(answer(&client).await.0, 200);
    }

    /// Every request, the readiness of the server included, is answered by a login page.
    #[tokio::test(start_paused = true)]
    async fn a_redirect_is_an_outage_that_says_where_it_leads_and_is_not_followed() {
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            assert!(request.uri().host().is_none(), "{}", request.uri());
            let answer = Response::builder().status(302).header("Location", "https://login.example.com/?token=hunter2");
            async move { Ok::<_, Infallible>(answer.body(Body::empty()).unwrap()) }
        });
        let client = Client::new(service, "shop");
        let connector = Connector {
            server: "https://cluster.example.com:6443".to_owned(),
            stamp: Box::new(|| 0),
            connect: Box::new(move || {
                let client = client.clone();
                Box::pin(async move { Ok(client) })
            }),
        };
        let clock = Clock::tokio(jiff::Timestamp::UNIX_EPOCH);
        let cluster = Cluster::new(connect(connector).await.unwrap(), clock);
        let error = cluster.discover().await.unwrap_err();
        let ClusterError::Away { because: AwayCause::Silent, message, .. } = &error else { panic!("{error:?}") };
        assert!(message.contains("redirects to https://login.example.com, which belay does not follow"), "{message}");
        assert!(!message.contains("hunter2") && !message.contains("can't be reached"), "{message}");
        assert_eq!(asked.load(Ordering::Relaxed), 2, "the request, and whether the server is ready");
    }

    fn connector_to(server: String) -> Connector {
        let of = server.clone();
        Connector {
            server,
            stamp: Box::new(|| 0),
            connect: Box::new(move || {
                let config = kube::Config::new(of.parse().unwrap());
                Box::pin(async move { Client::try_from(config).map_err(|error| error.to_string()) })
            }),
        }
    }

    /// The answer is none, and the server's interim answers end when nobody waits for it any more.
    #[tokio::test]
    async fn interim_answers_without_end_are_given_up() {
        use std::io::{Read as _, Write as _};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let sending = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let sent = (0_u64..).take_while(|_| client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok());
            sent.take(10_000_000).count()
        });
        let client = connect(connector_to(server)).await.unwrap();
        let error = client.send(Request::get("/api").body(Body::empty()).unwrap()).await.unwrap_err();
        assert!(without_credentials(&error).contains("interim answers"), "{error:?}");
        let sent = tokio::task::spawn_blocking(move || sending.join().unwrap()).await.unwrap();
        assert!(sent < 10_000_000, "{sent}");
    }

    #[tokio::test]
    async fn what_is_not_there_is_named_with_what_to_do() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = format!("http://127.0.0.1:{port}");
        let client = connect(connector_to(server.clone())).await.unwrap();
        let error = client.send(Request::get("/api").body(Body::empty()).unwrap()).await.unwrap_err();
        let said = without_credentials(&error);
        for part in [server.as_str(), "refused", "see that it runs"] {
            assert!(said.contains(part), "{said}");
        }
        let said = |cause: &str| Unreachable { server: "https://a".to_owned(), cause: cause.to_owned() }.to_string();
        assert!(said("invalid peer certificate: UnknownIssuer").contains("certificate-authority-data"));
        assert!(said("dns error: failed to lookup address information").contains("DNS"));
        assert_eq!(said("odd"), "the API server https://a can't be reached: odd");
    }
}

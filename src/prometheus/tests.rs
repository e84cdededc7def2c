//! The client against servers of its own, which answer as they should not.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const EMPTY: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

/// Serves this answer to every request. Returns the address, and the requests.
async fn server(answer: String) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = vec![0; 8192];
            let mut read = 0;
            while !is_whole(&text[..read]) {
                match stream.read(&mut text[read..]).await {
                    Ok(more) if more > 0 => read += more,
                    _ => break,
                }
            }
            drop(sender.send(String::from_utf8_lossy(&text[..read]).into_owned()));
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    (address, requests)
}

/// Returns true when a request has arrived with its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n{body}", body.len())
}

fn analysis(address: &str, more: &str) -> AnalysisConfig {
    let text = format!("name = 'a'\nprometheus = '{address}'\nquery = 'up'\nmin = 1\n{more}");
    toml::from_str(&text).unwrap()
}

async fn asked(analysis: &AnalysisConfig) -> Result<Vec<belay_core::rollout::analysis::Sample>, String> {
    let client = PrometheusClient::default();
    let at = Timestamp::from_millisecond(1_500).unwrap();
    client.query(analysis, "up{pod=~\"a|b\"} + 1".to_owned(), Some(at)).await.map_err(|error| error.to_string())
}

fn file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let file = folder.path().join("secret");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn a_query_is_a_form_with_its_time_and_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let token = file(&folder, "hunter2hunter2\n");
    let (address, mut requests) = server(answer("200 OK", "", EMPTY)).await;
    let with_token = analysis(&format!("{address}/prometheus/"), &format!("token_file = '{}'", token.display()));
    assert_eq!(asked(&with_token).await, Ok(vec![]));
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /prometheus/api/v1/query HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer hunter2hunter2\r\n"), "{request}");
    assert!(
        request.ends_with("\r\n\r\nquery=up%7Bpod%3D%7E%22a%7Cb%22%7D+%2B+1&time=1970-01-01T00%3A00%3A01.5Z"),
        "{request}"
    );
    let user = analysis(&address, &format!("username = 'ada'\npassword_file = '{}'", token.display()));
    assert_eq!(asked(&user).await, Ok(vec![]));
    // ada:hunter2hunter2
    assert!(requests.recv().await.unwrap().contains("authorization: Basic YWRhOmh1bnRlcjJodW50ZXIy\r\n"));
}

#[tokio::test]
async fn an_error_that_repeats_the_token_hides_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = file(&folder, "hunter2hunter2");
    let body = r#"{"status":"error","error":"not hunter2hunter2"}"#;
    let (address, _requests) = server(answer("400 Bad Request", "", body)).await;
    let error = asked(&analysis(&address, &format!("token_file = '{}'", token.display()))).await.unwrap_err();
    assert!(error.starts_with("Prometheus refuses the query: not ") && !error.contains("hunter2"), "{error}");
    std::fs::remove_file(&token).unwrap();
    let error = asked(&analysis(&address, &format!("token_file = '{}'", token.display()))).await.unwrap_err();
    assert!(error.starts_with("failed to read "), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, mut requests) = server(answer("200 OK", "", EMPTY)).await;
    let (address, _) = server(answer("302 Found", &format!("Location: {elsewhere}/\r\n"), "")).await;
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert_eq!(error, "Prometheus redirects to another address (302): write that address");
    assert!(requests.try_recv().is_err(), "nobody asked there");
}

#[tokio::test]
async fn an_answer_has_a_largest_size() {
    let (address, _requests) = server(answer("200 OK", "", &"a".repeat(client::LARGEST_ANSWER + 1))).await;
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert!(error.contains("is larger than 4 MiB"), "{error}");
    let (address, _requests) = server("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{".to_owned()).await;
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert!(error.starts_with("the answer broke off"), "{error}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::time::pause();
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert_eq!(error, "Prometheus did not answer within 10 s");
    tokio::time::resume();
    drop(listener);
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert!(error.starts_with("Prometheus "), "another test may have this port by now: {error}");
}

#[tokio::test]
async fn an_authority_of_its_own_is_trusted_where_it_is_named() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = file(&folder, &made.cert.pem());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            drop(stream.read(&mut [0; 4096]).await);
            drop(stream.write_all(answer("200 OK", "", EMPTY).as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    let error = asked(&analysis(&address, "")).await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
    assert_eq!(asked(&analysis(&address, &format!("ca_file = '{}'", authority.display()))).await, Ok(vec![]));
}

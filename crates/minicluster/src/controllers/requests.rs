//! The requests of controllers to the API server: typed, in the controllers' name, and never without a time limit.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::Error;
use super::key::{Key, name_of, namespace_of, version_of};

/// The field manager of the controllers' writes in `managedFields`, as on a real cluster.
const FIELD_MANAGER: &str = "kube-controller-manager";

/// Asks for an object's metadata without the rest.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The longest time until an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of the API server. Cheap to clone.
#[derive(Clone)]
pub struct Requests {
    client: kube::Client,
}

/// The part of a write's answer that most callers need.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Written {
    /// The object's metadata after the write.
    pub metadata: ObjectMeta,
}

/// A list of metadata.
#[derive(Clone, Debug, serde::Deserialize)]
struct Listed {
    items: Option<Vec<Written>>,
}

/// An answer that nobody reads.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub struct Ignored {}

impl Requests {
    /// Requests through `client`.
    pub fn new(client: kube::Client) -> Requests {
        Requests { client }
    }

    /// Returns the client itself, for requests that have no shape of their own here.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Fails with the server's error, or when it does not answer.
    pub async fn get<K>(&self, key: &Key) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let request = at::<K>(&key.namespace).get(&key.name, &GetParams::default());
        self.send("get", || what::<K>(key), request).await
    }

    /// Makes an object.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn create<K, R>(&self, object: &K) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
        R: DeserializeOwned,
    {
        self.create_from::<K, K, R>(&key_of(object), object).await
    }

    /// Makes an object of kind `K` from any body that has its shape. The name in `key` is only for errors.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn create_from<K, B, R>(&self, key: &Key, body: &B) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()>,
        B: Serialize,
        R: DeserializeOwned,
    {
        let request = to_bytes(body).and_then(|body| at::<K>(&key.namespace).create(&post(), body));
        self.send("create", || what::<K>(key), request).await
    }

    /// Writes a whole object over the stored one, if that is still of the same `resourceVersion`.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn replace<K, R>(&self, object: &K) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
        R: DeserializeOwned,
    {
        let key = key_of(object);
        let request = to_bytes(object).and_then(|body| at::<K>(&key.namespace).replace(&key.name, &post(), body));
        self.send("update", || what::<K>(&key), request).await
    }

    /// Writes an object's status, if the stored object is still of the same `resourceVersion`.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn replace_status<K, R>(&self, object: &K) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
        R: DeserializeOwned,
    {
        let key = key_of(object);
        let request = to_bytes(object)
            .and_then(|body| at::<K>(&key.namespace).replace_subresource("status", &key.name, &post(), body));
        self.send("update the status of", || what::<K>(&key), request).await
    }

    /// Writes the status that `set` gives an object; once more over a fresh copy if somebody else wrote meanwhile. Returns
    /// the object's version then; `None` if it is gone, or another object has its name.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn write_status<K>(&self, object: &K, set: impl Fn(&mut K) + Send) -> Result<Option<u64>, Error>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + Sync,
    {
        let mut changed = object.clone();
        set(&mut changed);
        let written: Written = match self.replace_status(&changed).await {
            Ok(written) => written,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if !error.is_conflict() => return Err(error),
            Err(_) => {
                let mut live: K = self.get(&key_of(object)).await?;
                if live.meta().uid != object.meta().uid {
                    return Ok(None);
                }
                set(&mut live);
                self.replace_status(&live).await?
            }
        };
        Ok(Some(version_of(&written.metadata)))
    }

    /// Lays a patch over an object.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn patch<K, P, R>(&self, key: &Key, patch: &Patch<P>) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()>,
        P: Serialize,
        R: DeserializeOwned,
    {
        let request = at::<K>(&key.namespace).patch(&key.name, &patching(), patch);
        self.send("patch", || what::<K>(key), request).await
    }

    /// Applies fields of an object as `manager`, and takes them over from other managers.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn apply<K, P, R>(&self, key: &Key, manager: &str, fields: P) -> Result<R, Error>
    where
        K: Resource<DynamicType = ()>,
        P: Serialize,
        R: DeserializeOwned,
    {
        let how = PatchParams::apply(manager).force();
        let request = at::<K>(&key.namespace).patch(&key.name, &how, &Patch::Apply(fields));
        self.send("apply", || what::<K>(key), request).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn delete<K>(&self, key: &Key, how: &DeleteParams) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let request = at::<K>(&key.namespace).delete(&key.name, how);
        let _: Ignored = self.send("delete", || what::<K>(key), request).await?;
        Ok(())
    }

    /// Reads the metadata of the object at a path.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn metadata(&self, path: &str) -> Result<ObjectMeta, Error> {
        let request = http::Request::get(path).header(http::header::ACCEPT, METADATA_ONLY).body(Vec::new());
        let request = request.map_err(kube::core::request::Error::BuildRequest);
        let answer: Written = self.send("read", || path.to_owned(), request).await?;
        Ok(answer.metadata)
    }

    /// Reads whatever is at a path.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn read_value(&self, path: &str) -> Result<Value, Error> {
        let request = http::Request::get(path).body(Vec::new());
        self.send("read", || path.to_owned(), request.map_err(kube::core::request::Error::BuildRequest)).await
    }

    /// Writes a namespace's finalizers.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn finalize(&self, namespace: &Namespace) -> Result<(), Error> {
        let key = key_of(namespace);
        let request = to_bytes(namespace)
            .and_then(|body| at::<Namespace>("").replace_subresource("finalize", &key.name, &post(), body));
        let _: Ignored = self.send("finalize", || what::<Namespace>(&key), request).await?;
        Ok(())
    }

    /// Lists the metadata of all objects at a path; `None` if the server does not know the path any more.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn list_metadata(&self, path: &str) -> Result<Option<Vec<ObjectMeta>>, Error> {
        let request = Request::new(path).list_metadata(&ListParams::default());
        let answer: Result<Listed, Error> = self.send("list", || path.to_owned(), request).await;
        match answer {
            Ok(list) => Ok(Some(list.items.into_iter().flatten().map(|item| item.metadata).collect())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a body to any path; the answer is not read.
    ///
    /// # Errors
    /// As for [`Requests::get`].
    pub async fn raw(
        &self,
        action: &'static str,
        method: &str,
        path: &str,
        media_type: &str,
        body: &Value,
    ) -> Result<(), Error> {
        let sign = if method == "DELETE" { String::new() } else { format!("?fieldManager={FIELD_MANAGER}") };
        let request = http::Request::builder().method(method).uri(format!("{path}{sign}"));
        let body = serde_json::to_vec(body).map_err(kube::core::request::Error::SerializeBody);
        let request = body.and_then(|body| {
            let request = request.header(http::header::CONTENT_TYPE, media_type).body(body);
            request.map_err(kube::core::request::Error::BuildRequest)
        });
        let _: Ignored = self.send(action, || path.to_owned(), request).await?;
        Ok(())
    }

    async fn send<R: DeserializeOwned>(
        &self,
        action: &'static str,
        what: impl Fn() -> String,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<R, Error> {
        let failed = |source: kube::Error| Error::Request { action, what: what(), source: Box::new(source) };
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match tokio::time::timeout(REQUEST_TIMEOUT, self.client.request(request)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(Error::NoAnswer { action, what: what(), seconds: REQUEST_TIMEOUT.as_secs() }),
        }
    }
}

/// Returns the path of a kind's objects, in one namespace or (empty) all.
fn at<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), (!namespace.is_empty()).then_some(namespace)))
}

fn key_of<K: Resource>(object: &K) -> Key {
    Key::new(namespace_of(object.meta()), name_of(object.meta()))
}

fn what<K: Resource<DynamicType = ()>>(key: &Key) -> String {
    format!("{} {key}", K::plural(&()))
}

fn to_bytes<K: Serialize>(object: &K) -> Result<Vec<u8>, kube::core::request::Error> {
    serde_json::to_vec(object).map_err(kube::core::request::Error::SerializeBody)
}

fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn patching() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

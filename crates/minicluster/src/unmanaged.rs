//! Objects read without their managed fields: often half of an object, and nothing that a controller reads.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::value::CowStrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

/// An object whose managed fields were passed over.
#[derive(Clone, Debug)]
pub struct Unmanaged<K>(pub K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Unmanaged<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(Part { inner: deserializer, level: Level::Object }).map(Unmanaged)
    }
}

impl<K: Resource> Resource for Unmanaged<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// The place in an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// At its fields, of which `metadata` is one.
    Object,
    /// At those of its metadata.
    Metadata,
}

/// A deserializer, visitor, seed or map of a part of an object, which passes the managed fields over.
struct Part<T> {
    inner: T,
    level: Level,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Part<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Part { inner: visitor, level: self.level })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Part { inner: visitor, level: self.level })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Part<V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(out)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Part { inner: deserializer, level: self.level })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Fields { map, level: self.level, at_metadata: false })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Part<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Part { inner: deserializer, level: self.level })
    }
}

struct Fields<A> {
    map: A,
    level: Level,
    /// True when the next value is the object's metadata.
    at_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        loop {
            let Some(Key(key)) = self.map.next_key::<Key<'de>>()? else { return Ok(None) };
            if self.level == Level::Metadata && key == "managedFields" {
                self.map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.at_metadata = self.level == Level::Object && key == "metadata";
            return seed.deserialize(CowStrDeserializer::new(key)).map(Some);
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.at_metadata {
            self.map.next_value_seed(Part { inner: seed, level: Level::Metadata })
        } else {
            self.map.next_value_seed(seed)
        }
    }
}

/// A key, not copied where that can be avoided.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor(PhantomData))
    }
}

struct KeyVisitor<'de>(PhantomData<&'de ()>);

impl<'de> Visitor<'de> for KeyVisitor<'de> {
    type Value = Key<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::WatchEvent;
    use serde_json::{Value, json};

    use super::Unmanaged;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "we\"b", "labels": { "metadata": "managedFields" },
                "annotations": { "managedFields": "kept" },
                "managedFields": [{ "manager": "me", "operation": "Update", "fieldsV1": { "f:spec": {} } }],
                "uid": "1",
            },
            "spec": { "nodeName": "one", "containers": [{ "name": "app", "image": "nginx" }] },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn all_is_read_but_the_managed_fields() {
        let (whole, mut wanted) = (pod().to_string(), serde_json::from_value::<Pod>(pod()).unwrap());
        wanted.metadata.managed_fields = None;
        let read: Unmanaged<Pod> = serde_json::from_str(&whole).unwrap();
        assert_eq!(read.0, wanted);
        let read: Unmanaged<Pod> = serde_json::from_value(pod()).unwrap();
        assert_eq!(read.0, wanted);
        let event = json!({ "type": "MODIFIED", "object": pod() }).to_string();
        let WatchEvent::Modified(read) = serde_json::from_str::<WatchEvent<Unmanaged<Pod>>>(&event).unwrap() else {
            panic!("another event");
        };
        assert_eq!(read.0, wanted);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for wrong in ["[]", "1", "null", r#"{"metadata":[]}"#, r#"{"metadata":{"managedFields":["#] {
            assert!(serde_json::from_str::<Unmanaged<Pod>>(wrong).is_err(), "{wrong}");
        }
        let none: Unmanaged<Pod> = serde_json::from_str(r#"{"metadata":null}"#).unwrap();
        assert_eq!(none.0, Pod::default());
    }
}

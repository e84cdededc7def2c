//! The form in which a client wants its answer: the object, a table of it, its metadata alone; JSON, YAML or protocol
//! buffers.

use super::ApiError;
use super::call::Call;
use super::protobuf::MEDIA_TYPE;

/// The format of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The shape of objects.
    pub shape: Shape,
    /// The encoding of values.
    pub format: Format,
    /// True for an answer with line breaks.
    pub pretty: bool,
}

/// The shape of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// They are sent as they are.
    Object,
    /// A row each.
    Table {
        /// The version of the table: `v1` or `v1beta1`.
        version: String,
        /// The object in each row.
        include: Include,
    },
    /// Their metadata alone.
    Metadata {
        /// `v1` or `v1beta1`.
        version: String,
        /// True when a list was asked for, and nothing else.
        list: bool,
    },
}

/// The object in each row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The object's metadata.
    Metadata,
    /// The object.
    Object,
}

/// The encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The choice if an answer comes at once or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// All at once.
    Whole,
    /// Piece by piece.
    Stream,
}

/// One of the media types that a client takes.
#[derive(Clone, Debug)]
struct Clause {
    media_type: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

const AVAILABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Negotiated {
    /// Returns plain JSON, pretty if a person seems to ask.
    #[must_use]
    pub fn plain(call: &Call) -> Negotiated {
        Negotiated { shape: Shape::Object, format: Format::Json, pretty: wants_pretty(call) }
    }

    /// Returns the form of refusals: JSON unless YAML is preferred.
    #[must_use]
    pub fn for_errors(call: &Call) -> Negotiated {
        let format = clauses(&accepted(call)).iter().find_map(|clause| format(&clause.media_type));
        Negotiated { format: format.unwrap_or(Format::Json), ..Negotiated::plain(call) }
    }

    /// Returns the result for the `Accept` header.
    ///
    /// # Errors
    /// 406 where none of it can be written; 400 for an unknown `includeObject`.
    pub fn new(call: &Call, delivery: Delivery) -> Result<Negotiated, ApiError> {
        Negotiated::of(call, delivery, true)
    }

    /// Returns the same for objects without rows: reviews, tokens.
    ///
    /// # Errors
    /// As [`Negotiated::new`], and 406 where only a table will do.
    pub fn without_table(call: &Call) -> Result<Negotiated, ApiError> {
        Negotiated::of(call, Delivery::Whole, false)
    }

    fn of(call: &Call, delivery: Delivery, has_table: bool) -> Result<Negotiated, ApiError> {
        let pretty = wants_pretty(call);
        let clauses = clauses(&accepted(call));
        if clauses.is_empty() {
            return Ok(Negotiated { shape: Shape::Object, format: Format::Json, pretty });
        }
        let mut known = false;
        for clause in &clauses {
            let Some(format) = format(&clause.media_type) else { continue };
            known = true;
            if format == Format::Yaml && delivery == Delivery::Stream {
                continue;
            }
            let shape = shape(clause, call)?;
            // A table has no form in protocol buffers.
            if let Some(shape) =
                shape.filter(|shape| (has_table && format != Format::Protobuf) || !matches!(shape, Shape::Table { .. }))
            {
                return Ok(Negotiated { shape, format, pretty });
            }
        }
        if known {
            let types = match delivery {
                Delivery::Whole => AVAILABLE,
                Delivery::Stream => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            };
            return Err(ApiError::not_acceptable(format!("only the following media types are accepted: {types}")));
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {AVAILABLE}");
        Err(ApiError { generic: true, ..ApiError::not_acceptable(message) })
    }
}

impl Clause {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The media type of aggregated discovery. Clients recognise by it that the answer has the requested form.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns true when the first type that a client accepts and that can be written is aggregated discovery.
#[must_use]
pub fn asks_for_aggregated(call: &Call) -> bool {
    let clauses = clauses(&accepted(call));
    let written = clauses.iter().filter(|clause| format(&clause.media_type) == Some(Format::Json));
    let mut known = written.filter_map(|clause| match (clause.parameter("as"), clause.parameter("g")) {
        (None, _) => Some(false),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io")) => {
            (clause.parameter("v") == Some("v2")).then_some(true)
        }
        _ => None,
    });
    known.next().unwrap_or_default()
}

fn accepted(call: &Call) -> String {
    let values: Vec<&str> = call.headers.get_all("accept").iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

fn clauses(accept: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = accept
        .split(',')
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let mut parameters: Vec<(String, String)> = parts
                .filter_map(|part| part.split_once('='))
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                .collect();
            let quality = parameters.iter().find(|(key, _)| key == "q").and_then(|(_, value)| value.parse().ok());
            parameters.retain(|(key, _)| key != "q");
            Clause { media_type, parameters, quality: quality.unwrap_or(1.0) }
        })
        .filter(|clause| clause.quality > 0.0)
        .collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

fn format(media_type: &str) -> Option<Format> {
    match media_type {
        "application/json" | "application/*" | "*/*" => Some(Format::Json),
        "application/yaml" => Some(Format::Yaml),
        MEDIA_TYPE => Some(Format::Protobuf),
        _ => None,
    }
}

fn shape(clause: &Clause, call: &Call) -> Result<Option<Shape>, ApiError> {
    let Some(kind) = clause.parameter("as") else { return Ok(Some(Shape::Object)) };
    let version = clause.parameter("v").unwrap_or_default();
    if clause.parameter("g") != Some("meta.k8s.io") || !matches!(version, "v1" | "v1beta1") {
        return Ok(None);
    }
    let version = version.to_owned();
    Ok(match kind {
        "Table" => {
            let include = match call.query.text("includeObject") {
                None | Some("Metadata") => Include::Metadata,
                Some("None") => Include::None,
                Some("Object") => Include::Object,
                Some(other) => {
                    let message = format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                         'Metadata', 'Object', 'None', or empty"
                    );
                    return Err(ApiError::bad_request(message));
                }
            };
            Some(Shape::Table { version, include })
        }
        "PartialObjectMetadata" => Some(Shape::Metadata { version, list: false }),
        "PartialObjectMetadataList" => Some(Shape::Metadata { version, list: true }),
        _ => None,
    })
}

fn wants_pretty(call: &Call) -> bool {
    call.query.flag("pretty").unwrap_or_else(|| {
        let agent = call.header("user-agent").unwrap_or_default();
        ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, Method};

    use super::*;
    use crate::api::call::User;
    use crate::api::query::Query;

    fn call(accept: &str) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_str(accept).unwrap());
        Call {
            method: Method::GET,
            path: "/".to_owned(),
            query: Query::default(),
            headers,
            body: Bytes::new(),
            user: User::admin(),
        }
    }

    fn shape_of(accept: &str) -> Shape {
        Negotiated::new(&call(accept), Delivery::Whole).unwrap().shape
    }

    #[test]
    fn the_first_form_that_can_be_written_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let include = Include::Metadata;
        assert_eq!(shape_of(table), Shape::Table { version: "v1".to_owned(), include });
        let protobuf = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(shape_of(protobuf), Shape::Object);
        assert_eq!(shape_of("application/vnd.kubernetes.protobuf, */*"), Shape::Object);
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(shape_of(partial), Shape::Metadata { version: "v1".to_owned(), list: true });
        let yaml = Negotiated::new(&call("application/json;q=0.5, application/yaml"), Delivery::Whole).unwrap();
        assert_eq!(yaml.format, Format::Yaml);
        let stream = Negotiated::new(&call("application/yaml, application/json"), Delivery::Stream).unwrap();
        assert_eq!(stream.format, Format::Json);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let refused = |accept: &str| Negotiated::new(&call(accept), Delivery::Whole).unwrap_err();
        assert!(refused("application/foo").generic);
        assert!(!refused("application/json;as=Foo;g=meta.k8s.io;v=v1").generic);
        assert_eq!(refused("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io").code, 406);
    }

    #[test]
    fn aggregated_discovery_is_only_sent_when_asked_for() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert!(asks_for_aggregated(&call(&format!("{v2},{v2beta1},application/json"))));
        assert!(!asks_for_aggregated(&call(&format!("{v2beta1},application/json"))));
        assert!(!asks_for_aggregated(&call(&format!("application/json,{v2}"))));
        assert!(Negotiated::new(&call(v2beta1), Delivery::Whole).is_err());
    }
}

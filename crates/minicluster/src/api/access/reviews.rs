//! Questions about access: who am I, may I, may they, whose is this token.

use serde_json::{Map, Value, json};

use super::{Attributes, ISSUER};
use crate::api::call::{Call, User};
use crate::api::json_pointer::text;
use crate::api::negotiate::Negotiated;
use crate::api::options::WriteOptions;
use crate::api::read::View;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::time::rfc3339;
use crate::api::write_context::write_context;
use crate::api::{ApiError, ApiServer, Cause};
use kube_rules::Read;

const AUTHORIZATION: &str = "authorization.k8s.io";

impl ApiServer {
    /// Answers a POST of a review. Nothing is stored.
    pub(in crate::api) fn review(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = WriteOptions::create(call)?;
        let how = Negotiated::without_table(call)?;
        let write = write_context(target, &options, self.now());
        let Read { object: sent, warnings } = kube_rules::read(&write, &call.body, call.body_format()?)?;
        let kind = target.resource.definition.kind.as_str();
        let status = match kind {
            "SelfSubjectReview" => json!({ "userInfo": user_info(&call.user) }),
            "TokenReview" => self.token_review(&sent)?,
            "SelfSubjectRulesReview" => self.rules_review(call, &sent)?,
            _ => self.access_review(call, target, &sent)?,
        };
        let mut review = Map::new();
        review.insert("kind".to_owned(), json!(kind));
        review.insert("apiVersion".to_owned(), json!(target.resource.api_version()));
        let mut metadata = json!({});
        if let Some(namespace) = &target.namespace {
            metadata["namespace"] = json!(namespace);
        }
        // The asker is noted as on an object that is stored.
        let mut named = sent.clone();
        named["metadata"] = json!({ "name": "review", "creationTimestamp": rfc3339(self.now()) });
        if let Some(namespace) = &target.namespace {
            named["metadata"]["namespace"] = json!(namespace);
        }
        let noted = kube_rules::create(&write, named, &|_| Ok(())).map(|read| read.object).unwrap_or_default();
        if let Some(managers) = noted["metadata"].get("managedFields").filter(|_| kind != "SelfSubjectRulesReview") {
            metadata["managedFields"] = managers.clone();
        }
        if kind == "SelfSubjectReview" {
            metadata["creationTimestamp"] = json!(rfc3339(self.now()));
        } else {
            let hides_spec = kind == "SelfSubjectRulesReview";
            review.insert("spec".to_owned(), if hides_spec { json!({}) } else { sent["spec"].clone() });
        }
        review.insert("metadata".to_owned(), metadata);
        review.insert("status".to_owned(), status);
        let view = View::new(&target.resource, &how, self.now());
        Ok(view.object(Value::Object(review))?.code(201).warn(warnings))
    }

    fn token_review(&self, sent: &Value) -> Result<Value, ApiError> {
        let token = text(sent, "/spec/token");
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match self.authenticator().user_of(token) {
            Some(user) => json!({ "authenticated": true, "user": user_info(&user), "audiences": [ISSUER] }),
            None => json!({ "user": {}, "error": "invalid bearer token" }),
        })
    }

    fn access_review(&self, call: &Call, target: &Target, sent: &Value) -> Result<Value, ApiError> {
        let spec = &sent["spec"];
        let own = target.resource.definition.kind == "SelfSubjectAccessReview";
        let user = if own {
            call.user.clone()
        } else {
            let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
            User {
                name: text(spec, "/user").to_owned(),
                groups: groups.map(str::to_owned).collect(),
                ..User::default()
            }
        };
        check(spec, &user, own)?;
        let resource = &spec["resourceAttributes"];
        let (path, verb) = (text(spec, "/nonResourceAttributes/path"), text(spec, "/nonResourceAttributes/verb"));
        let below = text(resource, "/subresource");
        let named = match below {
            "" => text(resource, "/resource").to_owned(),
            below => format!("{}/{below}", text(resource, "/resource")),
        };
        let attributes = if resource.is_object() {
            Attributes {
                verb: text(resource, "/verb"),
                group: text(resource, "/group"),
                resource: &named,
                namespace: Some(text(resource, "/namespace")).filter(|namespace| !namespace.is_empty()),
                name: text(resource, "/name"),
                path: "",
            }
        } else {
            Attributes { verb, group: "", resource: "", namespace: None, name: "", path }
        };
        let (allowed, why) = match self.authorizer().decide(&user, &attributes) {
            Ok(why) => (true, why),
            Err(why) => (false, why),
        };
        let mut status = json!({ "allowed": allowed });
        if !why.is_empty() {
            status["reason"] = json!(why);
        }
        Ok(status)
    }

    fn rules_review(&self, call: &Call, sent: &Value) -> Result<Value, ApiError> {
        let namespace = text(sent, "/spec/namespace");
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let grants = self.authorizer().grants_of(&call.user, Some(namespace));
        let complaint = grants.complaint();
        let mut rules: Vec<Value> = grants.given.into_iter().map(|given| given.rule).collect();
        if self.authorizer().allows_all() {
            rules.push(json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
            rules.push(json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }));
        }
        let (paths, resources): (Vec<Value>, Vec<Value>) =
            rules.into_iter().partition(|rule| rule["nonResourceURLs"].is_array());
        let mut status = json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false });
        if let Some(complaint) = complaint {
            status["evaluationError"] = json!(complaint);
        }
        Ok(status)
    }
}

fn check(spec: &Value, user: &User, own: bool) -> Result<(), ApiError> {
    let refuse = |field: &str, value: &str, why: &str| {
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
            field: Some(field.to_owned()),
        };
        Err(ApiError::invalid(AUTHORIZATION, "", "", vec![cause]))
    };
    if spec["resourceAttributes"].is_object() == spec["nonResourceAttributes"].is_object() {
        let (field, value) = if spec["resourceAttributes"].is_object() {
            ("spec.nonResourceAttributes", "\"non-nil\"")
        } else {
            ("spec.resourceAttributes", "null")
        };
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return refuse(field, value, why);
    }
    if !own && user.name.is_empty() && user.groups.is_empty() {
        return refuse("spec.user", "\"\"", "at least one of user or group must be specified");
    }
    Ok(())
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    for (key, values) in &user.extra {
        info["extra"][key] = json!(values);
    }
    info
}

//! Definitions as they were written before Kubernetes 1.16: `apiextensions.k8s.io/v1beta1`.
//!
//! Many published manifests still are. The types are here for their schemas alone: objects are turned into v1 as they
//! come in, and back as they go out.

use std::borrow::Cow;

use k8s_openapi::{
    ClusterResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinitionNames, CustomResourceDefinitionStatus, CustomResourceSubresources,
        CustomResourceValidation, SelectableField, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Map;

/// Makes a type of these fields: the name of each, its type, and what it is.
macro_rules! schema {
    ($name:ident, $about:literal, $required:expr, [$(($field:literal, $type:ty, $what:literal)),+ $(,)?]) => {
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                let package = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1";
                format!("{package}.{}", stringify!($name)).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut properties = Map::new();
                $({
                    let mut field = generator.subschema_for::<$type>();
                    field.insert("description".to_owned(), $what.into());
                    properties.insert($field.to_owned(), field.to_value());
                })+
                json_schema!({
                    "description": $about, "type": "object", "required": $required, "properties": properties,
                })
            }
        }
    };
}

pub(crate) struct CustomResourceDefinition;
struct CustomResourceDefinitionSpec;
struct CustomResourceDefinitionVersion;
struct CustomResourceColumnDefinition;
struct CustomResourceConversion;

impl k8s_openapi::Resource for CustomResourceDefinition {
    const API_VERSION: &'static str = "apiextensions.k8s.io/v1beta1";
    const GROUP: &'static str = "apiextensions.k8s.io";
    const KIND: &'static str = "CustomResourceDefinition";
    const VERSION: &'static str = "v1beta1";
    const URL_PATH_SEGMENT: &'static str = "customresourcedefinitions";
    type Scope = ClusterResourceScope;
}

schema!(
    CustomResourceDefinition,
    "A custom kind.",
    ["spec"],
    [
        ("apiVersion", String, "The group and version of this object."),
        ("kind", String, "The kind of this object."),
        ("metadata", ObjectMeta, "What every object has."),
        ("spec", CustomResourceDefinitionSpec, "How the kind is to be."),
        ("status", CustomResourceDefinitionStatus, "How the definition stands."),
    ]
);

schema!(CustomResourceDefinitionSpec, "How a kind is to be.", ["group", "names"], [
    ("additionalPrinterColumns", Vec<CustomResourceColumnDefinition>, "Columns of tables, for all versions."),
    ("conversion", CustomResourceConversion, "How objects are turned from one version into another."),
    ("group", String, "The API group."),
    ("names", CustomResourceDefinitionNames, "What the kind is called."),
    ("preserveUnknownFields", bool, "Whether fields that no schema knows are kept; true unless it is said otherwise."),
    ("scope", String, "Namespaced, which is the default, or Cluster."),
    ("subresources", CustomResourceSubresources, "Parts that are written separately, for all versions."),
    ("validation", CustomResourceValidation, "The schema, for all versions."),
    ("version", String, "The only version, where there are no others."),
    ("versions", Vec<CustomResourceDefinitionVersion>, "The versions."),
]);

schema!(CustomResourceDefinitionVersion, "One version of a kind.", ["name", "served", "storage"], [
    ("additionalPrinterColumns", Vec<CustomResourceColumnDefinition>, "Columns of tables."),
    ("deprecated", bool, "Whether it should no longer be used."),
    ("deprecationWarning", String, "What clients are told who use it all the same."),
    ("name", String, "What it is called, such as v1."),
    ("schema", CustomResourceValidation, "The schema."),
    ("selectableFields", Vec<SelectableField>, "Fields that objects can be selected by."),
    ("served", bool, "Whether it is served."),
    ("storage", bool, "Whether objects are stored in it."),
    ("subresources", CustomResourceSubresources, "Parts that are written separately."),
]);

schema!(
    CustomResourceColumnDefinition,
    "One column of a table.",
    ["name", "type", "JSONPath"],
    [
        ("JSONPath", String, "Where its cells come from."),
        ("description", String, "What it tells."),
        ("format", String, "A hint for the client."),
        ("name", String, "Its heading."),
        ("priority", i32, "Above 0, it is shown with -o wide only."),
        ("type", String, "The type of its cells."),
    ]
);

schema!(CustomResourceConversion, "How objects are turned from one version into another.", ["strategy"], [
    ("conversionReviewVersions", Vec<String>, "The forms of the question that the webhook understands."),
    ("strategy", String, "None or Webhook."),
    ("webhookClientConfig", WebhookClientConfig, "Where the webhook is."),
]);

//! The definitions, and a server that has them.

use std::{fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use windlass_opensergo::kinds::{KINDS, Kind};
use windlass_testkit::TestServer;

/// Refused by a server for what only a translation finds: the rest of a folder is refused by both.
const ONLY_FOUND_BY_TRANSLATION: &str = "# only found by translation";

#[test]
fn rows_say_what_definitions_say() {
    for kind in KINDS {
        let definition = (kind.definition)();
        let spec = &definition.spec;
        assert_eq!(definition.metadata.name, Some(format!("{}.{}", kind.plural, kind.group)));
        assert_eq!(
            (&*spec.group, &*spec.names.kind, &*spec.names.plural),
            (kind.group, kind.kind, kind.plural)
        );
        let [version] = &spec.versions[..] else { panic!("{kind:?} has one version") };
        assert_eq!(version.name, kind.version);
        assert!(version.served && version.storage, "{kind:?}");
        assert!(version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()), "{kind:?}");
        let columns = version.additional_printer_columns.iter().flatten();
        let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
        for expected in ["App", "Accepted", "Delivered", "Age"] {
            assert!(columns.contains(&expected), "{kind:?}: {expected} is not among {columns:?}");
        }
    }
}

async fn define(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in KINDS {
        api.create(&PostParams::default(), &(kind.definition)()).await.expect("the server takes it");
    }
}

/// Makes every object of a folder; what the server says of each.
async fn create(client: &Client, folder: &str) -> Vec<(String, String, Result<DynamicObject, kube::Error>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut outcomes = vec![];
    for file in fs::read_dir(folder).expect("a folder") {
        let file = file.expect("a file").path();
        if file.extension().is_none_or(|kind| kind != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("text");
        let mut object: DynamicObject = serde_saphyr::from_str(&text).expect("an object");
        let types = object.types.clone().expect("it says of which kind it is");
        let kind = Kind::find(&format!("{}/{}", types.api_version, types.kind)).expect("one of ours");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        object.metadata.name = Some(name.clone());
        object.metadata.namespace = Some("default".to_owned());
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
            kind.plural,
        );
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        outcomes.push((name, text, api.create(&PostParams::default(), &object).await));
    }
    outcomes
}

#[tokio::test]
async fn a_server_takes_what_is_right_and_refuses_what_is_wrong() {
    let server = TestServer::start().await.expect("a server");
    let client = server.client();
    define(&client).await;
    for (name, _, outcome) in create(&client, "golden").await {
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
    }
    for (name, text, outcome) in create(&client, "refused").await {
        if text.starts_with(ONLY_FOUND_BY_TRANSLATION) {
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
            continue;
        }
        let Err(kube::Error::Api(status)) = outcome else { panic!("{name} was taken") };
        assert_eq!(status.code, 422, "{name}: {status:?}");
        assert!(status.message.contains("spec"), "{name}: no field in {}", status.message);
    }
    server.stop().await;
}

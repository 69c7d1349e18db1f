//! Everyone at every door: all routes and verbs that the server has, asked for by everyone there is.
//!
//! The doors come from the server: its catalog, and [`Route`] variant by variant, so that a new one is tried as soon as it
//! compiles. Who should get through comes from the few lines of [`expected`], which know nothing of how roles are written.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use windlass_access::{User, authn::Peer};
use windlass_store::Memory;

use crate::{
    ApiServer, Config,
    http::{Route, route},
    resources::Resource,
};

/// Everyone there is. The three in the middle have their roles in the namespace `own`.
const EVERYONE: [&str; 6] = ["anonymous", "nobody", "view", "edit", "admin", "cluster-admin"];

/// The route after this one, and a path that leads there. A variant that is missing here does not compile.
fn next(route: &Route) -> Option<(Route, &'static str)> {
    let none = String::new;
    Some(match route {
        Route::Resource(_) => (Route::CoreVersions, "/api"),
        Route::CoreVersions => (Route::Groups, "/apis"),
        Route::Groups => (Route::Group(none()), "/apis/apps"),
        Route::Group(_) => (Route::Version(none(), none()), "/apis/apps/v1"),
        Route::Version(..) => (Route::OpenApiV2, "/openapi/v2"),
        Route::OpenApiV2 => (Route::OpenApiIndex, "/openapi/v3"),
        Route::OpenApiIndex => (Route::OpenApi(none()), "/openapi/v3/api/v1"),
        Route::OpenApi(_) => (Route::Health("", None), "/livez"),
        Route::Health(..) => (Route::Metrics, "/metrics"),
        Route::Metrics => (Route::ServerVersion, "/version"),
        Route::ServerVersion => (Route::Issuer, "/.well-known/openid-configuration"),
        Route::Issuer => (Route::IssuerKeys, "/openid/v1/jwks"),
        Route::IssuerKeys => (Route::Paths, "/"),
        Route::Paths => return None,
    })
}

/// Paths that lead where another path leads as well.
const MORE_PATHS: [&str; 7] =
    ["/api/v1", "/healthz", "/readyz", "/healthz/ping", "/livez/ping", "/nothing", "/nothing/at/all"];

/// One thing that can be asked for.
#[derive(Debug)]
struct Door {
    method: &'static str,
    path: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Path,
    Object {
        verb: &'static str,
        /// `deployments.apps`.
        resource: String,
        sub: String,
        /// Whether it is in the namespace of those who have a role there.
        own: bool,
    },
}

fn all_doors(server: &ApiServer) -> Vec<Door> {
    let catalog = server.registry.catalog.load_full();
    let mut doors = vec![];
    let mut path_doors = |path: &str| {
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        doors.extend(methods.map(|method| Door { method, path: path.to_owned(), what: What::Path }));
    };
    let row = catalog.get("", "pods").expect("pods are served");
    let target = crate::http::Target {
        resource: Arc::clone(row),
        version: "v1".to_owned(),
        namespace: String::new(),
        name: None,
        sub: None,
        watch: false,
    };
    let mut last = Route::Resource(target);
    while let Some((next, path)) = next(&last) {
        let found = route(path, &catalog).expect("the path leads somewhere");
        assert_eq!(
            std::mem::discriminant(&found),
            std::mem::discriminant(&next),
            "{path} leads to {found:?}, not to {next:?}"
        );
        path_doors(path);
        last = next;
    }
    MORE_PATHS.into_iter().for_each(&mut path_doors);
    for row in catalog.all() {
        resource_doors(row, &mut doors);
    }
    doors
}

fn resource_doors(row: &Resource, doors: &mut Vec<Door>) {
    let is_namespace = row.plural == "namespaces";
    let version = &row.versions[0].name;
    let root = match row.group.is_empty() {
        true => format!("/api/{version}"),
        false => format!("/apis/{}/{version}", row.group),
    };
    let subs = row.parts.iter().map(|part| part.name).chain(row.actions.iter().map(|(name, _)| *name));
    let subs: Vec<&str> = subs.chain(row.scale.iter().map(|_| "scale")).collect();
    let mut add = |method, path: String, verb, sub: &str, own| {
        let what = What::Object { verb, resource: row.qualified(), sub: sub.to_owned(), own };
        doors.push(Door { method, path, what });
    };
    let places: &[(&str, bool)] = match row.namespaced {
        true => &[("namespaces/own/", true), ("namespaces/other/", false), ("", false)],
        false => &[("", false)],
    };
    for (place, own) in places {
        let many = format!("{root}/{place}{}", row.plural);
        add("GET", format!("{many}?limit=1"), "list", "", *own);
        add("GET", format!("{many}?watch=true"), "watch", "", *own);
        add("GET", format!("{root}/watch/{place}{}", row.plural), "watch", "", *own);
        add("POST", format!("{many}?dryRun=All"), "create", "", *own);
        add("DELETE", format!("{many}?dryRun=All"), "deletecollection", "", *own);
        if row.namespaced && place.is_empty() {
            continue;
        }
        let names: &[(&str, bool)] =
            if is_namespace { &[("own", true), ("other", false)] } else { &[("x", *own)] };
        for (name, own) in names {
            let one = format!("{many}/{name}");
            add("GET", one.clone(), "get", "", *own);
            add("HEAD", one.clone(), "get", "", *own);
            add("GET", format!("{one}?watch=1"), "watch", "", *own);
            add("PUT", format!("{one}?dryRun=All"), "update", "", *own);
            add("PATCH", format!("{one}?dryRun=All"), "patch", "", *own);
            add("DELETE", format!("{one}?dryRun=All"), "delete", "", *own);
            for sub in &subs {
                let methods = [
                    ("GET", "get"),
                    ("POST", "create"),
                    ("PUT", "update"),
                    ("PATCH", "patch"),
                    ("DELETE", "delete"),
                ];
                for (method, verb) in methods {
                    add(method, format!("{one}/{sub}?dryRun=All"), verb, sub, *own);
                }
            }
        }
    }
}

/// What those with `view` may read. The status of these is read like the objects, and so is their scale.
const READ_BY_VIEW: &str = "bindings configmaps endpoints events limitranges namespaces persistentvolumeclaims pods \
    replicationcontrollers resourcequotas serviceaccounts services endpointslices.discovery.k8s.io \
    controllerrevisions.apps daemonsets.apps deployments.apps replicasets.apps statefulsets.apps \
    horizontalpodautoscalers.autoscaling cronjobs.batch jobs.batch poddisruptionbudgets.policy \
    ingresses.networking.k8s.io networkpolicies.networking.k8s.io resourceclaims.resource.k8s.io \
    resourceclaimtemplates.resource.k8s.io";

/// What of that those with `edit` only read as well: whoever could write these would reach beyond their own objects.
const NOT_WRITTEN_BY_EDIT: &str = "bindings endpoints limitranges namespaces resourcequotas \
    endpointslices.discovery.k8s.io controllerrevisions.apps";

/// Who gets through which door.
fn expected(who: &str, door: &Door) -> bool {
    let rank = EVERYONE.iter().position(|one| *one == who).expect("everyone is known");
    if who == "cluster-admin" {
        return true;
    }
    let (verb, resource, sub, own) = match &door.what {
        What::Path => {
            let is_public = ["/healthz", "/livez", "/readyz", "/version"]
                .iter()
                .any(|start| door.path.starts_with(start));
            let is_described = ["/api", "/openapi"].iter().any(|start| door.path.starts_with(start));
            return door.method == "GET" && (is_public || (rank >= 1 && is_described));
        }
        What::Object { verb, resource, sub, own } => (*verb, resource.as_str(), sub.as_str(), *own),
    };
    let is_own_review = resource.starts_with("selfsubject") && verb == "create";
    if is_own_review {
        return rank >= 1;
    }
    if !own || rank < 2 {
        return false;
    }
    let is_in = |list: &str| list.split_whitespace().any(|one| one == resource);
    let reads = matches!(verb, "get" | "list" | "watch");
    let by_view = reads && is_in(READ_BY_VIEW) && matches!(sub, "" | "status" | "scale" | "log");
    let reaches_in = matches!(
        (resource, sub),
        ("pods", "attach" | "exec" | "portforward" | "proxy") | ("services", "proxy")
    );
    let is_edited = is_in(READ_BY_VIEW) && !is_in(NOT_WRITTEN_BY_EDIT) && matches!(sub, "" | "scale");
    let is_edits_own = matches!(resource, "secrets" | "leases.coordination.k8s.io") && sub.is_empty();
    let creates =
        matches!((resource, sub), ("pods", "eviction") | ("serviceaccounts", "token")) && verb == "create";
    let by_edit = reaches_in || is_edited || is_edits_own || creates;
    let by_admin =
        matches!(resource, "roles.rbac.authorization.k8s.io" | "rolebindings.rbac.authorization.k8s.io")
            || (resource == "localsubjectaccessreviews.authorization.k8s.io" && verb == "create");
    by_view || (rank >= 3 && by_edit) || (rank >= 4 && by_admin)
}

async fn ask(
    server: &Arc<ApiServer>,
    user: Option<&Arc<User>>,
    method: &str,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(user) = user {
        request = request.extension(Peer { certificate: Some(Arc::clone(user)), ..Peer::default() });
    }
    let response = server.handle(request.body(Full::new(body)).expect("a request")).await;
    let code = response.status().as_u16();
    // What is sent to those who get in may never end.
    if code != 403 {
        return (code, Value::Null);
    }
    let body = response.into_body().collect().await.expect("bodies cannot fail").to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn user(name: &str, groups: &[&str]) -> Arc<User> {
    Arc::new(User::new(name, groups.iter().map(ToString::to_string).collect()).authenticated())
}

#[tokio::test]
async fn cve_2026_33413_everyone_gets_through_the_doors_that_are_theirs_and_no_others() {
    let store = Arc::new(Memory::new().expect("a store in memory can be made"));
    let server = ApiServer::start(Config::default(), store).await.expect("the server starts");
    let root = user("root", &["system:masters"]);
    for name in ["own", "other"] {
        let (code, _) =
            ask(&server, Some(&root), "POST", "/api/v1/namespaces", json!({"metadata": {"name": name}}))
                .await;
        assert_eq!(code, 201);
    }
    for role in ["view", "edit", "admin", "cluster-admin"] {
        let binding = json!({
            "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": role}],
        });
        let place =
            if role == "cluster-admin" { "clusterrolebindings" } else { "namespaces/own/rolebindings" };
        let name = if role == "cluster-admin" { json!({"name": "theirs"}) } else { json!({"name": role}) };
        let mut binding = binding;
        binding["metadata"] = name;
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{place}");
        assert_eq!(ask(&server, Some(&root), "POST", &path, binding).await.0, 201, "{role}");
    }
    let things = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }],
    }});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, Some(&root), "POST", definitions, things).await.0, 201);
    let doors = all_doors(&server);
    assert!(doors.iter().any(|door| door.path.contains("/own/things/x/status")), "custom kinds have doors");
    assert!(doors.len() > 1_500, "only {} doors", doors.len());
    let mut wrong = vec![];
    for who in EVERYONE {
        let asks = user(who, &[]);
        let asks = Some(&asks).filter(|_| who != "anonymous");
        for door in &doors {
            let (code, status) = ask(&server, asks, door.method, &door.path, Value::Null).await;
            // An answer to a HEAD says no more than its code; those who get in find nothing there.
            let refused = code == 403
                && (door.method == "HEAD"
                    || status["message"].as_str().is_some_and(|text| text.contains(" cannot ")));
            if refused == expected(who, door) {
                wrong.push(format!("{who} gets {code} from {} {}", door.method, door.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), doors.len() * EVERYONE.len(), wrong.join("\n"));
}

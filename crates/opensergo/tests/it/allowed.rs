//! Who may know what, when somebody asks.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    authorization::v1::{ResourceAttributes, SubjectAccessReview},
    core::v1::ServiceAccount,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tokio::{task::yield_now, time::Instant};
use tonic::Code;
use windlass_opensergo::access::Access;

use crate::{
    line::Line,
    sdk::{Sdk, channel},
    world::{Running, World, eventually, quick},
};

const LIMIT: &str = "RateLimitStrategy";

/// A control plane that asks.
async fn guarded(world: &World) -> Running {
    let access = Access::reviewed(world.client.clone(), None);
    Running::start(world.client.clone(), quick(), access, false).await
}

/// A service account's token.
async fn token(world: &World, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).expect("an account");
    accounts.create(&PostParams::default(), &account).await.expect("created");
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": []}})).expect("a request");
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await.expect("a token");
    made.status.and_then(|status| status.token).expect("a token")
}

/// Lets a service account know of the rate limits of an app; returns once that is so.
async fn allow(world: &World, account: &str, app: &str) {
    let (group, plural) = ("fault-tolerance.opensergo.io", "ratelimitstrategies");
    let role = json!({
        "metadata": {"name": account},
        "rules": [{"apiGroups": [group], "resources": [plural], "verbs": ["subscribe"], "resourceNames": [app]}],
    });
    let roles: Api<Role> = Api::namespaced(world.client.clone(), "default");
    let role = serde_json::from_value(role).expect("a role");
    roles.create(&PostParams::default(), &role).await.expect("created");
    let binding = json!({
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    });
    let binding = serde_json::from_value(binding).expect("a binding");
    bindings(world).create(&PostParams::default(), &binding).await.expect("created");
    let mut review = SubjectAccessReview::default();
    review.spec.user = Some(format!("system:serviceaccount:default:{account}"));
    review.spec.resource_attributes = Some(ResourceAttributes {
        verb: Some("subscribe".to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        namespace: Some("default".to_owned()),
        name: Some(app.to_owned()),
        ..ResourceAttributes::default()
    });
    let reviews: Api<SubjectAccessReview> = Api::all(world.client.clone());
    eventually("it is allowed", async || {
        let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
        answer.status.is_some_and(|status| status.allowed)
    })
    .await;
}

fn bindings(world: &World) -> Api<RoleBinding> {
    Api::namespaced(world.client.clone(), "default")
}

#[tokio::test]
async fn clients_are_told_of_the_apps_that_a_role_names() {
    let world = World::start().await;
    world.limit("a", "shop", 1).await;
    world.limit("b", "till", 2).await;
    let running = guarded(&world).await;
    let token = token(&world, "teller").await;
    allow(&world, "teller", "shop").await;
    let mut client = Sdk::on(channel(running.address).await, Some(&token)).await.expect("a stream");
    for (app, kinds) in [("till", LIMIT), ("shop", "FaultToleranceRule")] {
        client.subscribe(app, &[kinds]).await;
        let (code, refusal) = client.refusal().await;
        assert_eq!((code, &*refusal.app), (4003, app));
        let why = refusal.status.expect("a status").message;
        assert!(why.contains("system:serviceaccount:default:teller") && why.contains(app), "{why}");
    }
    client.subscribe("shop", &[LIMIT]).await;
    assert!(client.accept().await.is(&[("a", 1)]));
    world.limit("b", "till", 3).await;
    client.hears_nothing().await;
    world.limit("a", "shop", 4).await;
    assert!(client.accept().await.is(&[("a", 4)]));
    assert_eq!(running.view().subscribers[0].user.as_deref(), Some("system:serviceaccount:default:teller"));
}

#[tokio::test]
async fn what_is_no_longer_allowed_ends_the_stream() {
    let world = World::start().await;
    let running = guarded(&world).await;
    let (mut clients, mut stays) = (vec![], None);
    for name in ["stays", "loses-its-right", "is-gone"] {
        let token = token(&world, name).await;
        allow(&world, name, "shop").await;
        let mut client = Sdk::on(channel(running.address).await, Some(&token)).await.expect("a stream");
        client.subscribe("shop", &[LIMIT]).await;
        client.accept().await;
        match name {
            "stays" => stays = Some(client),
            _ => clients.push(client),
        }
    }
    bindings(&world).delete("loses-its-right", &DeleteParams::default()).await.expect("deleted");
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "default");
    accounts.delete("is-gone", &DeleteParams::default()).await.expect("deleted");
    let begun = Instant::now();
    // Their answers are remembered for five seconds, and they are asked for every five; other tests run meanwhile.
    while running.plane.streams().len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "they are still told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let [mut right, mut gone] = <[Sdk; 2]>::try_from(clients).expect("two");
    assert_eq!(right.end().await.expect_err("why").code(), Code::PermissionDenied);
    assert_eq!(gone.end().await.expect_err("why").code(), Code::Unauthenticated);
    world.limit("a", "shop", 1).await;
    assert!(stays.expect("it stays").accept().await.is(&[("a", 1)]));
}

/// Only the line over which it is asked who may what is mute: rules come over another.
#[tokio::test]
async fn an_api_server_that_does_not_answer_keeps_nobody_from_being_told() {
    let (world, line) = (World::start().await, Line::new(true));
    let access = Access::reviewed(line.client(&world.client), None);
    let running = Running::start(world.client.clone(), quick(), access, false).await;
    let token = token(&world, "teller").await;
    allow(&world, "teller", "shop").await;
    let mut client = Sdk::on(channel(running.address).await, Some(&token)).await.expect("a stream");
    client.subscribe("shop", &[LIMIT]).await;
    client.accept().await;
    line.mute();
    // What was answered before is so for five seconds, and an answer is waited for for ten.
    let begun = Instant::now();
    for threshold in 1.. {
        world.limit("a", "shop", threshold).await;
        assert!(client.accept().await.is(&[("a", threshold)]));
        if begun.elapsed() > Duration::from_secs(12) {
            break;
        }
    }
    // Whoever comes now is not let in, and does not wait for ever either.
    let refused = Sdk::on(channel(running.address).await, Some(&token)).await.expect_err("nobody knows it");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    line.mend();
    Sdk::on(channel(running.address).await, Some(&token)).await.expect("a stream");
}

/// An SDK that comes back asks for everything that it ever asked for at once, however long that takes to be answered.
#[tokio::test]
async fn much_may_be_asked_for_while_nobody_answers() {
    const TOPICS: usize = 500;
    let (world, line) = (World::start().await, Line::new(true));
    let access = Access::reviewed(line.client(&world.client), None);
    let running = Running::start(world.client.clone(), quick(), access, false).await;
    let token = token(&world, "teller").await;
    let mut client = Sdk::on(channel(running.address).await, Some(&token)).await.expect("a stream");
    line.mute();
    for idx in 0..TOPICS {
        client.subscribe(&format!("app-{idx}"), &[LIMIT]).await;
        // So that each is on its way before the next, in a frame of its own.
        for _ in 0..10 {
            yield_now().await;
        }
    }
    line.mend();
    for idx in 0..TOPICS {
        let (code, refusal) = client.refusal().await;
        assert_eq!((code, refusal.app), (4003, format!("app-{idx}")));
    }
}

/// Whatever is served comes from the descriptors, so that a new method is among these at once.
#[tokio::test]
async fn cve_2026_33413_every_method_asks_who_is_there() {
    let world = World::start().await;
    let running = guarded(&world).await;
    let pool =
        prost_reflect::DescriptorPool::decode(windlass_opensergo::proto::DESCRIPTORS).expect("descriptors");
    let methods: Vec<String> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name()))
        .collect();
    assert_eq!(methods.len(), 1, "{methods:?}: say here what a new one asks for");
    let answer = async |path: &str| {
        let mut grpc = tonic::client::Grpc::new(channel(running.address).await);
        grpc.ready().await.expect("a connection");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let path = path.parse().expect("a path");
        let answered = grpc.server_streaming(tonic::Request::new(()), path, codec).await;
        answered.err().map(|status| status.code())
    };
    for method in &methods {
        assert_eq!(answer(method).await, Some(Code::Unauthenticated), "{method}");
        assert_eq!(answer(&format!("{method}s")).await, Some(Code::Unimplemented), "there is no such method");
    }
    // These two say nothing of rules.
    let open = ["/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];
    for method in open {
        assert_ne!(answer(method).await, Some(Code::Unauthenticated), "{method}");
    }
}

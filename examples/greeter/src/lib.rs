//! Greeter: every Greeting has a ConfigMap of its name, with the words in it.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Resource,
    api::{Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_runtime::{Action, Cache, Key, ReconcileError, Reconciler, Recorder, Registration, Scope};

/// Who is greeted.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Greeting", namespaced)]
pub struct GreetingSpec {
    /// Their name.
    pub who: String,
}

/// What a manager is told of it.
pub const GREETER: Registration = Registration {
    name: "greeter",
    about: "Keeps a ConfigMap with the words of every Greeting",
    crd: Some(Greeting::crd),
    graph: None,
    build: |context| {
        let greetings = context.informers.of::<Greeting>(&Scope::all());
        let maps = context.informers.of::<ConfigMap>(&Scope::all());
        let (client, events) = (context.client.clone(), context.recorder());
        let greeter = Greeter { client, events, greetings: greetings.cache().clone() };
        Ok(context.controller(greeter).reconciles(&greetings).owns(&maps, "example.org", "Greeting"))
    },
};

struct Greeter {
    client: Client,
    events: Recorder,
    greetings: Cache<Greeting>,
}

#[async_trait]
impl Reconciler for Greeter {
    async fn reconcile(&self, key: &Key) -> Result<Action, ReconcileError> {
        // The map of one that is gone goes by itself: it has an owner.
        let Some(greeting) = self.greetings.get(key) else { return Ok(Action::Done) };
        let words = format!("Hello, {}!", greeting.spec.who);
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": key.name(), "ownerReferences": [greeting.controller_owner_ref(&())]},
            "data": {"words": words},
        });
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), key.namespace());
        maps.patch(key.name(), &PatchParams::apply("greeter").force(), &Patch::Apply(&map)).await?;
        self.events.normal(&*greeting, "Greeted", words);
        Ok(Action::Done)
    }
}

//! Questions to the authorizer.

use std::sync::Mutex;

use windlass_cel::{Authorizer, Budget, Check, Decision, Env, ExtensionType, ResourceCheck, Type, Variables};

use crate::support::{compiled, show};

/// Writes down what it is asked, and lets `get` pass.
#[derive(Default)]
struct Scribe(Mutex<Vec<String>>);

impl Authorizer for Scribe {
    fn check(&self, account: Option<(&str, &str)>, verb: &str, check: Check<'_>) -> Decision {
        let asked = match check {
            Check::Path(path) => path.path.clone(),
            Check::Resource(resource) => format!(
                "{}/{}/{} {}/{} {:?} {:?}",
                resource.group,
                resource.resource,
                resource.subresource,
                resource.namespace,
                resource.name,
                resource.field_selector,
                resource.label_selector
            ),
        };
        let who = account.map_or(String::new(), |(namespace, name)| format!("{namespace}:{name} "));
        self.0.lock().expect("no panic holds it").push(format!("{who}{verb} {asked}"));
        let error = (verb == "fail").then(|| "broken".to_owned());
        Decision { allowed: verb == "get", reason: format!("because {verb}"), error }
    }
}

#[test]
fn checks_are_built_up_and_asked() {
    let env = Env::new().variable("authorizer", Type::Extension(ExtensionType::Authorizer));
    let scribe = Scribe::default();
    for (source, expected) in [
        ("authorizer.path('/healthz').check('get').allowed()", "true"),
        ("authorizer.path('/healthz').check('post').allowed()", "false"),
        ("authorizer.group('apps').resource('deployments').check('get').reason()", "\"because get\""),
        (
            "authorizer.group('').resource('pods').subresource('log').namespace('n').name('p').check('get').allowed()",
            "true",
        ),
        (
            "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c=d').check('list').errored()",
            "false",
        ),
        ("authorizer.serviceAccount('ns', 'sa').path('/x').check('fail').error()", "\"broken\""),
        ("authorizer.path(' ')", "!path must not be empty"),
        ("authorizer.group('').resource('')", "!resource must not be empty"),
        ("authorizer.serviceAccount('N S', 'sa')", "!Invalid service account namespace"),
        ("authorizer.serviceAccount('ns', 's a')", "!Invalid service account name"),
    ] {
        let program = compiled(&env, source);
        let variables = Variables::new().authorizer("authorizer", &scribe);
        let found = match program.eval(&variables, &mut Budget::default()) {
            Ok(value) => show(&value),
            Err(error) => format!("!{error}"),
        };
        assert!(found.starts_with(expected), "{source}: {found}");
    }
    let asked = scribe.0.lock().expect("no panic holds it");
    assert_eq!(
        *asked,
        [
            "get /healthz",
            "post /healthz",
            "get apps/deployments/ / None None",
            "get /pods/log n/p None None",
            "list /pods/ / Some(\"a=b\") Some(\"c=d\")",
            "ns:sa fail /x",
        ]
    );
}

#[test]
fn the_resource_of_the_request_is_a_variable_of_its_own() {
    let env = Env::new()
        .variable("authorizer", Type::Extension(ExtensionType::Authorizer))
        .variable("authorizer.requestResource", Type::Extension(ExtensionType::ResourceCheck));
    let scribe = Scribe::default();
    let check =
        ResourceCheck { resource: "pods".to_owned(), namespace: "n".to_owned(), ..ResourceCheck::default() };
    let program = compiled(&env, "authorizer.requestResource.name('p').check('get').allowed()");
    let variables = Variables::new().authorizer("authorizer", &scribe).resource_check(
        "authorizer.requestResource",
        &scribe,
        check,
    );
    let value = program.eval(&variables, &mut Budget::default()).expect("a value");
    assert_eq!(value.as_bool(), Some(true));
    assert_eq!(*scribe.0.lock().expect("no panic holds it"), ["get /pods/ n/p None None"]);
}

#[test]
fn one_expression_can_ask_twice_and_no_more() {
    let env = Env::new().variable("authorizer", Type::Extension(ExtensionType::Authorizer));
    let scribe = Scribe::default();
    let ask = "authorizer.path('/a').check('get').allowed()";
    for (times, fits) in [(2, true), (3, false)] {
        let program = compiled(&env, &vec![ask; times].join(" && "));
        let variables = Variables::new().authorizer("authorizer", &scribe);
        assert_eq!(program.eval(&variables, &mut Budget::default()).is_ok(), fits);
    }
}

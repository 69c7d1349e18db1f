//! What people are shown can be sent.

use std::{collections::BTreeSet, fs, path::Path};

use kube::api::DynamicObject;
use windlass_opensergo::kinds::{KINDS, Kind};

#[test]
fn every_rule_in_the_document_can_be_sent() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/opensergo-rules.md");
    let text = fs::read_to_string(file).expect("the document");
    let mut shown = BTreeSet::new();
    for block in text.split("```yaml\n").skip(1) {
        let block = block.split("```").next().expect("an end");
        let object: DynamicObject = serde_saphyr::from_str(block).expect("an object");
        let types = object.types.as_ref().expect("it says of which kind it is");
        let kind = Kind::find(&format!("{}/{}", types.api_version, types.kind)).expect("one of ours");
        (kind.translate)(&object).unwrap_or_else(|error| panic!("{block}: {error}"));
        assert_eq!((kind.warnings)(&object), [""; 0], "{block}");
        shown.insert(kind.kind);
    }
    let all: BTreeSet<_> = KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(shown, all, "each kind is shown");
}

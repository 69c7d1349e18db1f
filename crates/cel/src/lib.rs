//! CEL, the expression language of Kubernetes, for rules that users write: typed when it is compiled, bounded
//! when it runs.
//!
//! ```
//! use serde_json::json;
//! use windlass_cel::{Budget, Env, Type, Variables};
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {
//!         "name": {"type": "string", "maxLength": 63},
//!         "replicas": {"type": "integer"},
//!         "max": {"type": "integer"},
//!     },
//! });
//! let env = Env::new().variable("self", Type::from_schema(&schema));
//!
//! // Types are checked before anything runs.
//! let errors = env.compile("self.replicas > self.name").expect_err("an int is not compared with a string");
//! assert_eq!(errors[0].message, "found no matching overload for '_>_' applied to '(int, string)'");
//!
//! let rule = env.compile("self.replicas <= self.max && self.name.startsWith('a')").expect("well typed");
//! assert_eq!(rule.result(), &Type::Bool);
//! let object = json!({"name": "api", "replicas": 2, "max": 3});
//! let mut budget = Budget::default();
//! let value = rule.eval(&Variables::new().json("self", &object), &mut budget).expect("within the budget");
//! assert_eq!(value.as_bool(), Some(true));
//! assert_eq!(budget.spent(), 8);
//! ```
//!
//! - [`Env`] says what an expression can name, and compiles it to a [`Program`].
//! - [`Type`] comes from OpenAPI schemas, with the sizes they allow; [`Program::most_cost`] follows from them.
//! - [`Budget`] counts as Kubernetes counts, and stops what costs too much, in the middle of a loop if need be.
//! - [`rules`] are the `x-kubernetes-validations` of custom resources, all of them at once.
//! - [`Variables::defer`] makes the `variables` of admission policies, and [`Env::with_mutations`] the types of
//!   mutating ones. [`Authorizer`] is what `authorizer` asks; who has none declares no such variable, and an
//!   expression that names it does not compile.
//!
//! Pure: no input or output, no clock. Nothing an expression or its data contains can make it panic, run out
//! of stack, or take more time or memory than the budget stands for.
//!
//! # What there is
//!
//! The language of the CEL specification with optional values, two-variable macros and `cel.bind`; of the
//! libraries: strings, `format`, lists, sets, `math`, regular expressions, base64, and those of Kubernetes:
//! lists, `url`, `quantity`, `ip`, `cidr`, `format`, `semver`, `authorizer`, `jsonpatch`. Numbers of different
//! types are compared, lists and maps that are written out are of one type, `has()` is free. Values, types,
//! messages and estimates are those of Kubernetes 1.37, but for what follows.
//!
//! # What there is not
//!
//! - Protocol buffers: no messages, no enums, no wrappers, no `Any`; of structures only `Object`, its fields and
//!   `JSONPatch`. No identifiers in backquotes.
//! - `quantity`'s `mul`, `div` and `divInt`; the `image` library; the functions of CEL's own `regex` extension
//!   (Kubernetes has `find` and `findAll`); `cel.block`.
//! - The calendar ends on 9999-12-30, as that of our time library does. A time forgets the offset that it was
//!   written with.
//! - `format` writes `%e` as `1.5e+03` and `%f` without separators; Kubernetes does it in the manner of a locale.
//! - Regular expressions are those of Go but for some that Go refuses and we take, such as `a**`. Those that
//!   compile to more than half a mebibyte, or to more than 32 KiB when they are not literals, are refused.
//!
//! # What there is besides
//!
//! - `cel.bind`, `math`, base64, `reverse` of texts and `sign` as a method are not in Kubernetes 1.37.
//! - An object whose schema preserves unknown fields and names none is dynamic, rather than without fields. A
//!   dynamic value may stand beside others in a list.
//! - Integers are compared with floating point numbers exactly.
//! - Deep equality, the joining of lists and the compilation of patterns cost what they take, where Kubernetes
//!   asks for a unit or two; what is constant costs nothing.
//!
//! # Why not a crate
//!
//! `cel` 0.15 is the kept implementation in Rust, and `kube-cel` 0.8 builds on it (an older version). Neither
//! has a type checker or a budget; values are copied into the interpreter's own before it runs. The parser
//! alone could have been used, but it comes with the ANTLR runtime whether or not its newer, hand-written twin
//! is switched on, and leaves macros as generic loops, where ours are nodes of their own. So what would have
//! been shared is some six hundred lines, and those decide what a hostile expression can cost.

mod ast;
mod authorizer;
mod budget;
mod check;
mod cost;
mod env;
mod error;
mod escape;
mod eval;
mod lexer;
mod library;
mod literal;
mod macros;
mod node;
mod parser;
mod program;
pub mod rules;
mod schema;
mod types;
mod value;

pub use self::{
    authorizer::{Authorizer, Check, Decision, PathCheck, ResourceCheck},
    budget::{Budget, EXPRESSION_LIMIT, OBJECT_LIMIT},
    env::{Env, selects},
    error::{CompileError, EvalError, Limit},
    escape::{escape, unescape},
    library::{formats::Format, urls::Url},
    program::{Program, Variables},
    types::{Declared, ExtensionType, ListKind, ListType, MapType, StructField, StructType, Type, Unknown},
    value::{Asked, Extension, Key, List, Map, Object, Text, Value},
};

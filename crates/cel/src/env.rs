//! What an expression can name: the variables it is given, besides the functions there are.

use std::sync::Arc;

use crate::{
    check,
    error::CompileError,
    parser,
    program::Program,
    types::{Declared, Type},
};

/// Whether an expression names a field of a variable: `a.b`, `a.?b`, `a['b']`, `has(a.b)`. One that does not parse
/// names nothing.
///
/// ```
/// use windlass_cel::selects;
/// assert!(selects("has(claims.email) ? claims['email'] : ''", "claims", "email"));
/// assert!(!selects("claims.sub + '@email'", "claims", "email"));
/// ```
pub fn selects(source: &str, variable: &str, field: &str) -> bool {
    parser::parse(source).is_ok_and(|expr| expr.selects(variable, field))
}

/// What expressions are compiled against.
///
/// ```
/// use windlass_cel::{Env, Type};
/// let env = Env::new().variable("name", Type::String);
/// assert!(env.compile("name.startsWith('a')").is_ok());
/// let errors = env.compile("nam.startsWith('a')").expect_err("there is no such variable");
/// assert_eq!(errors[0].message, "undeclared reference to 'nam' (in container '')");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<(Arc<str>, Declared)>,
    construct: bool,
}

impl Env {
    /// All functions of Kubernetes, and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more variable; a later one of the same name takes its place.
    ///
    /// A name may have dots, such as `authorizer.requestResource`.
    pub fn variable(mut self, name: &str, ty: impl Into<Declared>) -> Self {
        self.variables.retain(|(own, _)| **own != *name);
        self.variables.push((name.into(), ty.into()));
        self
    }

    /// With the types that mutations are made of: `Object{…}`, `Object.spec{…}`, `JSONPatch{…}`, and
    /// `jsonpatch.escapeKey`.
    pub fn with_mutations(mut self) -> Self {
        self.construct = true;
        self
    }

    /// Compiles an expression.
    pub fn compile(&self, source: &str) -> Result<Program, Vec<CompileError>> {
        let expr = parser::parse(source).map_err(|error| vec![*error])?;
        let checked = check::check(self, source, &expr)?;
        Ok(Program::new(checked))
    }

    /// Compiles an expression that must come to one of some types.
    pub fn compile_to(&self, source: &str, allowed: &[Type]) -> Result<Program, Vec<CompileError>> {
        let program = self.compile(source)?;
        if allowed.iter().any(|ty| ty == program.result()) {
            return Ok(program);
        }
        let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let message = match &*names {
            [one] => format!("must evaluate to {one}"),
            many => format!("must evaluate to one of {}", many.join(", ")),
        };
        Err(vec![CompileError::new(source, 0, message)])
    }

    pub(crate) fn find(&self, name: &str) -> Option<&(Arc<str>, Declared)> {
        self.variables.iter().find(|(own, _)| **own == *name)
    }

    pub(crate) fn can_construct(&self) -> bool {
        self.construct
    }

    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.construct || name != "jsonpatch.escapeKey"
    }
}

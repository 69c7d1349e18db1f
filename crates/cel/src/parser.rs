//! Makes a tree of an expression, by recursive descent.
//!
//! The depth of the recursion and of the tree is bounded, so that no later step can run out of stack either.
//! Chains of `&&` and `||` become balanced trees, as they are the one thing people write at length.

use crate::{
    ast::{Element, Entry, Expr, FieldEntry, Kind, Literal, Operator},
    error::CompileError,
    escape::RESERVED,
    lexer::{self, Token},
    macros,
};

/// How deep an expression may nest. Each level costs some hundred bytes of stack in each pass.
pub(crate) const MOST_DEPTH: u16 = 150;
/// How many parts an expression may have.
pub(crate) const MOST_PARTS: u32 = 5_000;

/// Reads a whole expression.
pub(crate) fn parse(source: &str) -> Parsed {
    let mut parser =
        Parser { source, tokens: lexer::tokens(source).map_err(Box::new)?, next: 0, depth: 0, parts: 0 };
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

pub(crate) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<(Token, u32)>,
    next: usize,
    depth: u16,
    parts: u32,
}

/// Boxed, because every level of the recursion has room for one.
pub(crate) type Fault = Box<CompileError>;
pub(crate) type Parsed = Result<Expr, Fault>;

/// How strongly `||` binds; the others bind more strongly.
const OR: u8 = 0;
const AND: u8 = 1;

fn operator(symbol: &str) -> Option<(u8, Operator)> {
    Some(match symbol {
        "<" => (2, Operator::Less),
        "<=" => (2, Operator::LessEqual),
        ">" => (2, Operator::Greater),
        ">=" => (2, Operator::GreaterEqual),
        "==" => (2, Operator::Equal),
        "!=" => (2, Operator::NotEqual),
        "+" => (3, Operator::Add),
        "-" => (3, Operator::Subtract),
        "*" => (4, Operator::Multiply),
        "/" => (4, Operator::Divide),
        "%" => (4, Operator::Modulo),
        _ => return None,
    })
}

impl Parser<'_> {
    pub(crate) fn error(&self, at: u32, message: impl Into<String>) -> Fault {
        Box::new(CompileError::new(self.source, at, message))
    }

    /// A part of the tree, unless there are too many or it is too deep.
    pub(crate) fn part(&mut self, at: u32, kind: Kind) -> Parsed {
        self.parts += 1;
        let depth = 1 + kind.children().map(|child| child.depth).max().unwrap_or(0);
        if depth > MOST_DEPTH {
            return Err(self.too_deep(at));
        }
        if self.parts > MOST_PARTS {
            return Err(self.error(at, format!("expression has more than {MOST_PARTS} parts")));
        }
        Ok(Expr { at, depth, kind })
    }

    fn too_deep(&self, at: u32) -> Fault {
        self.error(at, format!("max recursion depth exceeded: {MOST_DEPTH}"))
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> u32 {
        self.tokens[self.next].1
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn symbol(&self) -> &'static str {
        match self.peek() {
            Token::Symbol(symbol) => symbol,
            _ => "",
        }
    }

    fn take(&mut self, symbol: &str) -> bool {
        let taken = self.symbol() == symbol;
        if taken {
            self.advance();
        }
        taken
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.take(symbol) { Ok(()) } else { Err(self.expected(&format!("'{symbol}'"))) }
    }

    fn found(&self) -> String {
        let (_, from) = self.tokens[self.next];
        match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            _ => {
                let text = &self.source[from as usize..];
                let end = self.tokens.get(self.next + 1).map_or(text.len(), |(_, to)| (to - from) as usize);
                text[..end].trim().chars().take(40).collect()
            }
        }
    }

    fn unexpected(&self) -> Fault {
        self.error(self.at(), format!("Syntax error: mismatched input '{}'", self.found()))
    }

    fn expected(&self, what: &str) -> Fault {
        self.error(self.at(), format!("Syntax error: mismatched input '{}' expecting {what}", self.found()))
    }

    /// `a ? b : c`, or anything that binds more strongly.
    fn expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(self.too_deep(self.at()));
        }
        let condition = self.climb(OR)?;
        let at = self.at();
        let expr = if self.take("?") {
            let yes = self.climb(OR)?;
            self.expect(":")?;
            let no = self.expr()?;
            self.part(at, Kind::Conditional(Box::new(condition), Box::new(yes), Box::new(no)))?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Operators that bind at least so strongly. One function for all of them keeps the stack small.
    fn climb(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let (level, operator) = match self.peek() {
                Token::Symbol("||") => (OR, None),
                Token::Symbol("&&") => (AND, None),
                Token::Symbol(symbol) => match operator(symbol) {
                    Some((level, operator)) => (level, Some(operator)),
                    None => return Ok(left),
                },
                Token::Ident(name) if &**name == "in" => (2, Some(Operator::In)),
                _ => return Ok(left),
            };
            if level < least {
                return Ok(left);
            }
            left = match operator {
                Some(operator) => {
                    let at = self.at();
                    self.advance();
                    let right = self.climb(level + 1)?;
                    self.part(at, Kind::Binary(operator, Box::new(left), Box::new(right)))?
                }
                None => self.chain(level, left)?,
            };
        }
    }

    /// A chain of `||` or `&&`.
    fn chain(&mut self, level: u8, first: Expr) -> Parsed {
        let symbol = if level == OR { "||" } else { "&&" };
        let (mut operands, mut ats) = (vec![first], vec![self.at()]);
        while self.take(symbol) {
            operands.push(self.climb(level + 1)?);
            ats.push(self.at());
        }
        self.balance(level, operands, &ats)
    }

    fn balance(&mut self, level: u8, mut operands: Vec<Expr>, ats: &[u32]) -> Parsed {
        if operands.len() == 1 {
            return operands.pop().ok_or_else(|| self.unexpected());
        }
        let middle = operands.len().div_ceil(2);
        let right = operands.split_off(middle);
        let at = ats[middle - 1];
        let left = Box::new(self.balance(level, operands, &ats[..middle])?);
        let right = Box::new(self.balance(level, right, &ats[middle..])?);
        self.part(at, if level == OR { Kind::Or(left, right) } else { Kind::And(left, right) })
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at();
        let mut count = 0;
        if self.take("!") {
            count += 1;
            while self.take("!") {
                count += 1;
            }
            let operand = self.member()?;
            return if count % 2 == 0 { Ok(operand) } else { self.part(at, Kind::Not(Box::new(operand))) };
        }
        while self.symbol() == "-" {
            let number = self.tokens.get(self.next + 1).map(|(token, _)| token);
            // The last minus belongs to the number: there is no positive form of the least integer.
            if matches!(number, Some(Token::Int(_) | Token::Double(_))) {
                break;
            }
            self.advance();
            count += 1;
        }
        let operand = self.member()?;
        if count % 2 == 0 { Ok(operand) } else { self.part(at, Kind::Negate(Box::new(operand))) }
    }

    /// A value with what follows it: fields, indexes, calls.
    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let at = self.at();
            if self.take(".") {
                let optional = self.take("?");
                let field = self.name("IDENTIFIER")?;
                // Faults of a call are shown at its parenthesis.
                let call_at = self.at();
                if !optional && self.take("(") {
                    let args = self.arguments(")")?;
                    expr = macros::member(self, call_at, expr, field, args)?;
                } else {
                    let operand = Box::new(expr);
                    expr = self.part(at, Kind::Select { operand, field, optional })?;
                }
            } else if self.take("[") {
                let optional = self.take("?");
                let index = Box::new(self.expr()?);
                self.expect("]")?;
                expr = self.part(at, Kind::Index { operand: Box::new(expr), index, optional })?;
            } else if self.symbol() == "{" {
                let Some(name) = qualified_name(&expr) else { return Err(self.unexpected()) };
                self.advance();
                let fields = self.fields()?;
                expr = self.part(at, Kind::Struct { name: name.into(), fields })?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn name(&mut self, what: &str) -> Result<Box<str>, Fault> {
        match self.peek() {
            Token::Ident(name) if !RESERVED[..4].contains(&&**name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>, Fault> {
        let mut args = vec![];
        if self.take(close) {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if !self.take(",") {
                self.expect(close)?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let negative = self.take("-");
        let literal = match self.peek().clone() {
            Token::Int(digits) => {
                let value =
                    if negative { 0i64.checked_sub_unsigned(digits) } else { i64::try_from(digits).ok() };
                Literal::Int(value.ok_or_else(|| self.error(at, "invalid int literal"))?)
            }
            Token::Double(value) => Literal::Double(if negative { -value } else { value }),
            _ if negative => return Err(self.unexpected()),
            Token::Uint(value) => Literal::Uint(value),
            Token::String(text) => Literal::String(text),
            Token::Bytes(bytes) => Literal::Bytes(bytes),
            Token::Ident(name) => match &*name {
                "null" => Literal::Null,
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                _ => return self.identifier(at, name),
            },
            Token::Symbol(symbol) => return self.bracket(at, symbol),
            Token::End => return Err(self.unexpected()),
        };
        self.advance();
        self.part(at, Kind::Literal(literal))
    }

    fn identifier(&mut self, at: u32, name: Box<str>) -> Parsed {
        if RESERVED.contains(&&*name) {
            return Err(self.error(at, format!("reserved identifier: {name}")));
        }
        self.advance();
        let call_at = self.at();
        if self.take("(") {
            let args = self.arguments(")")?;
            return macros::global(self, call_at, name, args);
        }
        self.part(at, Kind::Ident(name))
    }

    fn bracket(&mut self, at: u32, symbol: &str) -> Parsed {
        match symbol {
            "(" => {
                self.advance();
                let expr = self.expr()?;
                self.expect(")")?;
                Ok(expr)
            }
            "[" => {
                self.advance();
                let elements = self.elements()?;
                self.part(at, Kind::List(elements))
            }
            "{" => {
                self.advance();
                let entries = self.entries()?;
                self.part(at, Kind::Map(entries))
            }
            // A name from the root; there is but one container, so it is the same name.
            "." => {
                self.advance();
                match self.peek().clone() {
                    Token::Ident(name) => self.identifier(at, name),
                    _ => Err(self.expected("IDENTIFIER")),
                }
            }
            _ => Err(self.unexpected()),
        }
    }

    fn elements(&mut self) -> Result<Vec<Element>, Fault> {
        let mut elements = vec![];
        while !self.take("]") {
            let optional = self.take("?");
            elements.push(Element { optional, value: self.expr()? });
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(elements)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Fault> {
        let mut entries = vec![];
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry { optional, key, value: self.expr()? });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }

    fn fields(&mut self) -> Result<Vec<FieldEntry>, Fault> {
        let mut fields = vec![];
        while !self.take("}") {
            let optional = self.take("?");
            let at = self.at();
            let name = self.name("IDENTIFIER")?;
            self.expect(":")?;
            fields.push(FieldEntry { at, optional, name, value: self.expr()? });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(fields)
    }
}

/// `a.b.c` as one name; `None` for anything else.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.to_string()),
        Kind::Select { operand, field, optional: false } => {
            let mut name = qualified_name(operand)?;
            name.push('.');
            name.push_str(field);
            Some(name)
        }
        _ => None,
    }
}

impl Kind {
    /// The parts directly below.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Expr> {
        let mut few: [Option<&Expr>; 3] = [None; 3];
        let mut many: Vec<&Expr> = vec![];
        match self {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } | Kind::Has { operand, .. } => few[0] = Some(operand),
            Kind::Not(operand) | Kind::Negate(operand) => few[0] = Some(operand),
            Kind::Index { operand, index, .. } => few = [Some(operand), Some(index), None],
            Kind::And(a, b) | Kind::Or(a, b) | Kind::Binary(_, a, b) => few = [Some(a), Some(b), None],
            Kind::Conditional(a, b, c) => few = [Some(a), Some(b), Some(c)],
            Kind::Call { target, args, .. } => {
                few[0] = target.as_deref();
                many.extend(args);
            }
            Kind::List(elements) => many.extend(elements.iter().map(|element| &element.value)),
            Kind::Map(entries) => many.extend(entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            Kind::Struct { fields, .. } => many.extend(fields.iter().map(|field| &field.value)),
            Kind::Fold(fold) => few = [Some(&fold.range), fold.filter.as_ref(), Some(&fold.body)],
            Kind::Bind { init, body, .. } => few = [Some(init), Some(body), None],
            Kind::OptMap { target, body, .. } => few = [Some(target), Some(body), None],
        }
        few.into_iter().flatten().chain(many)
    }
}

//! What the manager answers to those who ask how it is.

use std::fmt::Write;

use prometheus_client::encoding::text::encode;

use super::Manager;

/// Looks at one thing and says what is wrong with it.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Manager {
    /// Whether the process is alive: its code, and text.
    pub fn healthz(&self) -> (u16, String) {
        (200, "ok".to_owned())
    }

    /// Whether every controller that is to run does, or is ready to, and every other check passes. The text names all
    /// of them, why those fail that do, and what people should know besides.
    pub fn readyz(&self) -> (u16, String) {
        let (mut text, mut is_ready) = (String::new(), true);
        for (name, outcome) in self.check_all() {
            is_ready &= outcome.is_ok();
            line(&mut text, &name, &outcome);
        }
        for unit in self.units() {
            if let Some(warning) = unit.warning() {
                // Text does not fail.
                let _ = writeln!(text, "warn: {}: {warning}", unit.name());
            }
        }
        text.push_str(if is_ready { "readyz check passed\n" } else { "readyz check failed\n" });
        (if is_ready { 200 } else { 500 }, text)
    }

    /// The same, of one check alone; `None` if there is no such check.
    pub fn readyz_of(&self, name: &str) -> Option<(u16, String)> {
        let (name, outcome) = self.check_all().into_iter().find(|(known, _)| known == name)?;
        let mut text = String::new();
        line(&mut text, &name, &outcome);
        Some((if outcome.is_ok() { 200 } else { 500 }, text))
    }

    /// All that is counted, as Prometheus reads it.
    pub fn metrics(&self) -> (u16, String) {
        self.units().iter().for_each(|unit| unit.measure());
        if let Some(lease) = self.0.lease.get() {
            self.0.metrics.leads(lease, self.is_leader() == Some(true));
        }
        let mut text = String::new();
        match encode(&mut text, &self.0.registry.lock()) {
            Ok(()) => (200, text),
            Err(error) => (500, error.to_string()),
        }
    }

    /// Every check, and what came of it.
    fn check_all(&self) -> Vec<(String, Result<(), String>)> {
        let mut all = vec![("ping".to_owned(), Ok(()))];
        all.extend(self.0.checks.lock().iter().map(|(name, check)| (name.clone(), check())));
        all.extend(self.units().iter().map(|unit| (unit.name().to_owned(), unit.check())));
        all
    }
}

fn line(text: &mut String, name: &str, outcome: &Result<(), String>) {
    // Text does not fail.
    let _ = match outcome {
        Ok(()) => writeln!(text, "[+]{name} ok"),
        Err(why) => writeln!(text, "[-]{name} failed: {why}"),
    };
}

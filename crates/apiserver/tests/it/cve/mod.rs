//! Vulnerabilities of systems like this one, each tried against this one. A test is named by the one it tries.
//!
//! Those without a test here; where a crate is named, a test of that crate has its name:
//!
//! | what | where it is tried, or why it cannot be |
//! |---|---|
//! | CVE-2020-8559, CVE-2022-3172 (redirects of backends) | nothing is proxied; who is called is under CVE-2020-8561 |
//! | CVE-2023-44487, CVE-2023-39325, RUSTSEC-2024-0332, RUSTSEC-2026-0258 (HTTP/2 floods) | `e2e`: CVE-2023-44487 |
//! | CVE-2020-8558, CVE-2018-1098, CVE-2018-1099 (trust in localhost, rebinding) | `windlass`: CVE-2020-8558, CVE-2018-1098 |
//! | CVE-2023-2728 (mountable secrets) | the annotation that it went round is not enforced; Kubernetes has given it up |
//! | CVE-2026-33413, CVE-2026-33343, GHSA-xg4h-6gfc-h4m8 (calls without a check) | the matrix of routes, and `opensergo`: CVE-2026-33413; watches that lose their right: `access::watching` |
//! | CVE-2022-23635, CVE-2022-24726 (unauthenticated push) | `opensergo`: CVE-2022-23635, CVE-2022-24726 |
//! | CVE-2025-1974 (text made of fields) | no text that anybody runs is made of fields |
//! | CVE-2018-18264 (console with rights of its own) | there is no console yet |
//! | CVE-2020-15106 to CVE-2020-15136 (log and directory of etcd) | `store`: rot and faults; `e2e`: CVE-2020-15113 |
//! | RUSTSEC-2020-0008, 2021-0020, 2021-0078 (request smuggling) | `windlass`: later requests on a connection of the localhost rule |

mod bombs;
mod funnel;
mod identity;
mod network;
mod paths;
mod quiet;

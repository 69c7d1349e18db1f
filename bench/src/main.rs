//! scratch
use std::{sync::Arc, time::Instant};
use windlass_store::*;
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or("/tmp/bench-store".into()));
    let _ = std::fs::remove_dir_all(&dir);
    for writers in [1usize, 16, 64, 256] {
        let store = Arc::new(Embedded::open(&dir, Retention::default())?);
        let n = if writers == 1 { 5000 } else { 200_000 };
        let t = Instant::now();
        let mut tasks = vec![];
        for w in 0..writers {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let value = bytes::Bytes::from(vec![7u8; 1024]);
                for i in 0..n / writers {
                    let key = format!("pods/ns-{}/name-{}", w, i % 200);
                    store.commit(Txn::new().put(key, value.clone(), Expect::Any)).await.expect("ok");
                }
            }));
        }
        for t in tasks {
            t.await?;
        }
        let e = t.elapsed();
        println!("{writers} writers: {:.0}/s", n as f64 / e.as_secs_f64());
        store.close().await;
        drop(store);
        let t = Instant::now();
        let s = Embedded::open(&dir, Retention::default())?;
        println!("  open {:?} window {:?}", t.elapsed(), s.window());
        drop(s);
    }
    Ok(())
}

//! Threads that sync several files at once: a disk confirms many syncs in the time of a few.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Syncs under way at once.
const THREADS: usize = 16;

/// The threads; they end with this value.
#[derive(Debug)]
pub(super) struct Syncers {
    /// `None`: no more files.
    files: Option<Sender<(usize, File)>>,
    synced: Receiver<(usize, io::Result<()>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Syncers {
    /// Starts them.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub(super) fn start() -> io::Result<Syncers> {
        let (files, taken) = channel();
        let (tell, synced) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let mut syncers = Syncers {
            files: Some(files),
            synced,
            threads: Vec::new(),
        };
        for _ in 0..THREADS {
            let (taken, tell) = (Arc::clone(&taken), tell.clone());
            let thread = std::thread::Builder::new().name("disk-sync".to_owned());
            let started = thread.spawn(move || sync_all(&taken, &tell))?;
            syncers.threads.push(started);
        }
        Ok(syncers)
    }

    /// Syncs these files, and returns what became of each when all are done.
    pub(super) fn sync(&self, files: Vec<File>) -> Vec<io::Result<()>> {
        let mut results: Vec<io::Result<()>> = Vec::new();
        for (number, file) in files.into_iter().enumerate() {
            results.push(Err(io::Error::other("nobody syncs any more")));
            if let Some(sender) = &self.files {
                // One that cannot be sent stays as it is: not synced.
                let _sent = sender.send((number, file));
            }
        }
        for _ in 0..results.len() {
            let Ok((number, result)) = self.synced.recv() else {
                break;
            };
            results[number] = result;
        }
        results
    }
}

impl Drop for Syncers {
    fn drop(&mut self) {
        self.files = None;
        for thread in self.threads.drain(..) {
            // A panic there has been told by the thread itself.
            let _ended = thread.join();
        }
    }
}

fn sync_all(files: &Mutex<Receiver<(usize, File)>>, tell: &Sender<(usize, io::Result<()>)>) {
    loop {
        let next = files.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, file)) = next else { return };
        if tell.send((number, file.sync_data())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn each_file_has_its_own_result() {
        let path = std::env::temp_dir().join(format!("srtm-syncers-{}", std::process::id()));
        let regular = || File::create(&path).expect("a file");
        // What is no file on a disk cannot be synced.
        let pipe = || File::from(OwnedFd::from(std::io::pipe().expect("a pipe").1));
        let syncers = Syncers::start().expect("threads");
        for _ in 0..3 {
            let files = (0..100).map(|number| if number % 7 == 3 { pipe() } else { regular() });
            let synced = syncers.sync(files.collect());
            let failed: Vec<usize> = (0..synced.len())
                .filter(|&number| synced[number].is_err())
                .collect();
            assert_eq!(failed, (3..100).step_by(7).collect::<Vec<_>>());
            assert_eq!(synced.len(), 100);
        }
        assert_eq!(syncers.sync(Vec::new()).len(), 0);
        drop(syncers);
        std::fs::remove_file(&path).expect("it was there");
    }
}

//! A volume that is read and stays as it is.

use std::io;

use super::Volume;

/// Reads another volume; what is written, cut off or removed is forgotten. So what is opened on it can be read as its owner would, and
/// nothing else may be done with it.
#[derive(Debug)]
pub struct Untouched<V>(pub V);

impl<V: Volume> Volume for Untouched<V> {
    fn create(&mut self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn write_at(&mut self, _name: &str, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&mut self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.0.read_at(name, offset, length)
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        self.0.length(name)
    }

    fn truncate(&mut self, _name: &str, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        Ok(())
    }
}

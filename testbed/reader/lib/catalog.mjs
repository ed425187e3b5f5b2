// The SQLite catalog: which metadata file is a table's current one.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import sqlite from 'node-sqlite3-wasm';

const stamp = (file) => {
  try {
    const s = fs.statSync(file, { bigint: true });
    return `${s.size}:${s.mtimeNs}`;
  } catch (e) {
    if (e.code === 'ENOENT') return 'none';
    throw e;
  }
};

// snapshotFiles copies the database and its log into a directory of its own. A pair that changed while it was copied
// is copied again, so that a reader beside a live writer sees one committed state.
function snapshotFiles(file, dir) {
  const copy = path.join(dir, 'catalog.db');
  for (let i = 0; i < 200; i++) {
    const before = [stamp(file), stamp(`${file}-wal`)];
    fs.copyFileSync(file, copy);
    fs.rmSync(`${copy}-wal`, { force: true });
    if (before[1] !== 'none') {
      try {
        fs.copyFileSync(`${file}-wal`, `${copy}-wal`);
      } catch (e) {
        if (e.code !== 'ENOENT') throw e;
        continue; // the writer closed and folded its log in
      }
    }
    if (before[0] === stamp(file) && before[1] === stamp(`${file}-wal`)) return copy;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  }
  throw new Error(`copy ${file}: it never stood still`);
}

// tables lists every table of the catalog: {namespace, name, metadata, previous}.
export function tables(file) {
  if (!fs.existsSync(file)) throw new Error(`open catalog ${file}: no such file`);
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'siglake-reader-'));
  try {
    const db = new sqlite.Database(snapshotFiles(file, dir));
    try {
      db.exec('PRAGMA locking_mode=EXCLUSIVE'); // the WebAssembly build has no shared memory for the log's index
      const check = db.all('PRAGMA quick_check');
      if (check.length !== 1 || Object.values(check[0])[0] !== 'ok') throw new Error(`check catalog ${file}: ${JSON.stringify(check)}`);
      if (!db.all("SELECT name FROM sqlite_master WHERE type='table' AND name='iceberg_tables'").length) return [];
      return db
        .all(`SELECT table_namespace AS namespace, table_name AS name, metadata_location AS metadata,
                previous_metadata_location AS previous FROM iceberg_tables ORDER BY 1, 2`)
        .filter((t) => t.metadata);
    } finally {
      db.close();
    }
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

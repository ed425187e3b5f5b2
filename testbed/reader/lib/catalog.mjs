// The catalog, a SQLite file or a PostgreSQL database: which metadata file is a table's current one.
import { execFileSync } from 'node:child_process';
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

const query = `SELECT table_namespace AS namespace, table_name AS name, metadata_location AS metadata,
  previous_metadata_location AS previous FROM iceberg_tables ORDER BY 1, 2`;

// postgresTables asks a database through psql. The password goes through the environment: arguments are for all to see.
function postgresTables(url) {
  const u = new URL(url);
  const env = { ...process.env, PGCONNECT_TIMEOUT: '10' };
  if (u.password) env.PGPASSWORD = decodeURIComponent(u.password);
  u.password = '';
  const ask = (sql) => execFileSync('psql', ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--set=ON_ERROR_STOP=1', `--dbname=${u}`, `--command=${sql}`],
    { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  if (ask("SELECT to_regclass('iceberg_tables') IS NULL") === 't') return [];
  return JSON.parse(ask(`SELECT coalesce(json_agg(t), '[]') FROM (${query}) t`)).filter((t) => t.metadata);
}

// tables lists every table of the catalog: {namespace, name, metadata, previous}.
export function tables(file) {
  if (/^postgres(ql)?:/.test(file)) return postgresTables(file);
  if (!fs.existsSync(file)) throw new Error(`open catalog ${file}: no such file`);
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'siglake-reader-'));
  try {
    const db = new sqlite.Database(snapshotFiles(file, dir));
    try {
      db.exec('PRAGMA locking_mode=EXCLUSIVE'); // the WebAssembly build has no shared memory for the log's index
      const check = db.all('PRAGMA quick_check');
      if (check.length !== 1 || Object.values(check[0])[0] !== 'ok') throw new Error(`check catalog ${file}: ${JSON.stringify(check)}`);
      if (!db.all("SELECT name FROM sqlite_master WHERE type='table' AND name='iceberg_tables'").length) return [];
      return db.all(query).filter((t) => t.metadata);
    } finally {
      db.close();
    }
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

// Parquet through DuckDB, and the exact JSON form of its values.
import './bom.mjs';
import { DuckDBInstance } from '@duckdb/node-api';
import { localPath } from './files.mjs';

const quote = (s) => `'${s.replaceAll("'", "''")}'`;
export const ident = (s) => `"${s.replaceAll('"', '""')}"`;

export async function open() {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2', memory_limit: '2GB' });
  const db = await instance.connect();
  await db.run("SET TimeZone='UTC'");
  return db;
}

// fileList is the SQL list of the paths of a table's files.
export const fileList = (files) => `[${files.map((f) => quote(localPath(f.path))).join(', ')}]`;

// topLevel reads the names and field ids of a file's columns.
async function topLevel(db, path) {
  const rows = (await db.runAndReadAll(`SELECT name, num_children, field_id FROM parquet_schema(${quote(path)})`)).getRows();
  const out = [];
  const skip = (i) => {
    let next = i + 1;
    for (let n = Number(rows[i][1] ?? 0); n > 0; n--) next = skip(next);
    return next;
  };
  for (let i = 1; i < rows.length; i = skip(i)) out.push({ name: rows[i][0], id: rows[i][2] == null ? null : Number(rows[i][2]) });
  return out;
}

// checkColumns proves that each file's columns carry the field ids of the table's schema. Only then may a file be read
// by name.
export async function checkColumns(db, table) {
  const byID = new Map(table.schema.fields.map((f) => [f.id, f.name]));
  for (const f of table.files) {
    for (const c of await topLevel(db, localPath(f.path))) {
      if (c.id == null) throw new Error(`${f.path}: column ${c.name} has no field id`);
      if (byID.get(c.id) !== c.name) throw new Error(`${f.path}: column ${c.name} has field id ${c.id}, which the table calls ${byID.get(c.id)}`);
    }
  }
}

// view makes the table's live rows readable as t, with file and file_row_number beside the columns.
export async function view(db, table) {
  if (table.files.length === 0) {
    await db.run(`CREATE OR REPLACE TEMP VIEW t AS SELECT ${table.schema.fields.map((f) => `NULL AS ${ident(f.name)}`).join(', ')} WHERE false`);
    return;
  }
  await checkColumns(db, table);
  await db.run(`CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM read_parquet(${fileList(table.files)}, union_by_name=true, filename='_file', file_row_number=true)`);
}

// exact is a value as JSON that loses nothing: integers and microseconds as decimal text, doubles as the shortest text
// that reads back equal, bytes as {"$bytes": hex}, maps as lists of pairs.
export function exact(v) {
  if (v === null || v === undefined) return null;
  switch (typeof v) {
    case 'bigint':
      return v.toString();
    case 'number':
      return Object.is(v, -0) ? '-0' : String(v);
    case 'string':
    case 'boolean':
      return v;
  }
  if ('micros' in v) return v.micros.toString();
  if ('days' in v && Object.keys(v).length === 1) return String(v.days);
  if ('bytes' in v) return { $bytes: Buffer.from(v.bytes).toString('hex') };
  if (Array.isArray(v.items)) return v.items.map(exact);
  if (Array.isArray(v.entries)) return v.entries.map((e) => [exact(e.key), exact(e.value)]);
  if (typeof v.entries === 'object') return Object.fromEntries(Object.entries(v.entries).map(([k, x]) => [k, exact(x)]));
  throw new Error(`no exact form for ${v.constructor?.name}: ${v}`);
}

// stream calls each for every row of a query, in order.
export async function stream(db, sql, each) {
  const result = await db.stream(sql);
  const names = result.deduplicatedColumnNames();
  for (;;) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) return;
    for (const row of chunk.getRows()) await each(names, row);
  }
}

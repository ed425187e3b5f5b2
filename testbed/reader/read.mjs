#!/usr/bin/env node
// Reads the Iceberg tables of a data directory without any code of the product or of iceberg-go.
//
//   read.mjs tables   --catalog FILE
//   read.mjs summary  --catalog FILE --table siglake.events            files, rows by manifests and by Parquet, bounds
//   read.mjs verify   --catalog FILE --table siglake.events            as summary, plus every claim of the manifests checked
//   read.mjs rows     --catalog FILE --table siglake.events [--columns a,b]   rows as JSON lines
//   read.mjs query    --catalog FILE --table siglake.events SQL        SQL over t (the live rows), JSON lines of arrays
//   read.mjs serve    --catalog FILE                                   the same commands as JSON arrays of words, one a line
//
// serve answers each line of its input with the lines of the command and then with {"end":true} or {"error":"..."}.
//
// --data DIR stands for --catalog DIR/catalog.db. The catalog may be a postgres:// URL; psql must be installed then. With
// --s3-root DIR objects s3://BUCKET/KEY are read as the files DIR/BUCKET/KEY. SIGLAKE_READ_CATALOG and
// SIGLAKE_READ_S3_ROOT stand for the two. A table that is not in the catalog is an error, except with
// --missing-ok, which treats it as empty.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import path from 'node:path';
import * as catalog from './lib/catalog.mjs';
import * as parquet from './lib/parquet.mjs';
import { setS3Root } from './lib/files.mjs';
import { prune } from './lib/prune.mjs';
import { verify } from './lib/verify.mjs';
import { decodeBound, load, manifestRows } from './lib/table.mjs';

const json = (v) =>
  JSON.stringify(v, (k, x) => {
    if (typeof x === 'bigint') return x.toString();
    if (x instanceof Map) return Object.fromEntries(x);
    return x;
  });

async function print(line) {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
}

function bounds(table, file, map) {
  const out = {};
  for (const f of table.schema.fields) {
    if (typeof f.type !== 'string' || !map.has(f.id)) continue;
    const v = decodeBound(f.type, map.get(f.id));
    out[f.name] = Buffer.isBuffer(v) ? v.toString('utf8') : parquet.exact(v);
  }
  return out;
}

async function summary(db, table) {
  const counts = table.files.length
    ? (await db.runAndReadAll(`SELECT count(*) FROM t`)).getRows()[0][0]
    : 0n;
  return {
    uuid: table.uuid,
    format: table.format,
    metadata: table.metadata,
    location: table.location,
    snapshot: table.snapshot?.['snapshot-id'] == null ? null : String(table.snapshot['snapshot-id']),
    sequence: table.snapshot?.['sequence-number'] == null ? null : String(table.snapshot['sequence-number']),
    snapshot_summary: table.snapshot?.summary ?? {},
    properties: table.properties,
    snapshots: table.snapshots,
    manifests: table.manifests,
    manifest_rows: manifestRows(table),
    parquet_rows: counts,
    columns: table.schema.fields.map((f) => ({ id: f.id, name: f.name, required: f.required, type: f.type })),
    files: table.files.map((f) => ({
      path: f.path, rows: f.rows, bytes: f.bytes, partition: f.partition, sort_order: f.sortOrder,
      lower: bounds(table, f, f.lower), upper: bounds(table, f, f.upper),
    })),
  };
}

let db; // one engine for all commands of a process

async function run(args, defaults) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      data: { type: 'string' },
      catalog: { type: 'string' },
      table: { type: 'string' },
      columns: { type: 'string' },
      'missing-ok': { type: 'boolean' },
      's3-root': { type: 'string' },
    },
  });
  const [command, ...rest] = positionals;
  setS3Root(values['s3-root'] ?? process.env.SIGLAKE_READ_S3_ROOT);
  const file = values.catalog ?? (values.data && path.join(values.data, 'catalog.db')) ?? defaults ?? process.env.SIGLAKE_READ_CATALOG;
  if (!command || !file) throw new Error('say a command (tables, summary, verify, rows, query, serve) and --data DIR or --catalog FILE|postgres://...');
  if (command === 'serve') return serve(file);
  const all = catalog.tables(file);
  if (command === 'tables') return print(json(all));
  const found = all.find((t) => `${t.namespace}.${t.name}` === values.table);
  if (!found) {
    if (!values['missing-ok']) throw new Error(`table ${values.table} is not in ${file}; there are: ${all.map((t) => `${t.namespace}.${t.name}`).join(', ') || 'none'}`);
    if (command === 'summary' || command === 'verify') return print(json({ missing: true, manifest_rows: 0n, parquet_rows: 0n, files: [], wrong: [] }));
    return undefined;
  }
  const table = await load(found.metadata);
  db ??= await parquet.open();
  await parquet.view(db, table);
  switch (command) {
    case 'summary':
      return print(json(await summary(db, table)));
    case 'verify': {
      const s = await summary(db, table);
      s.wrong = [...await verify(db, table), ...await prune(db, table)];
      if (s.manifest_rows !== s.parquet_rows) s.wrong.push(`manifests claim ${s.manifest_rows} rows, the files hold ${s.parquet_rows}`);
      return print(json(s));
    }
    case 'rows': {
      const names = values.columns ? values.columns.split(',') : table.schema.fields.map((f) => f.name);
      return parquet.stream(db, `SELECT ${names.map(parquet.ident).join(', ')} FROM t`, (n, row) =>
        print(json(Object.fromEntries(n.map((name, i) => [name, parquet.exact(row[i])])))));
    }
    case 'query':
      return parquet.stream(db, rest[0], (n, row) => print(json(row.map(parquet.exact))));
    default:
      throw new Error(`unknown command ${command}: say tables, summary, verify, rows, query or serve`);
  }
}

async function serve(file) {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      await run(JSON.parse(line), file);
      await print('{"end":true}');
    } catch (e) {
      await print(JSON.stringify({ error: e.message }));
    }
  }
}

run(process.argv.slice(2)).catch((e) => {
  process.stderr.write(`read.mjs: ${e.message}\n`);
  process.exitCode = 1;
});

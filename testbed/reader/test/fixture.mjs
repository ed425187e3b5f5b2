// A small Iceberg table made by hand: DuckDB writes the Parquet, avsc the manifests.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import avro from 'avsc';
import sqlite from 'node-sqlite3-wasm';
import { DuckDBInstance } from '@duckdb/node-api';
import { long } from '../lib/avro.mjs';

const bytesMap = (name) => ({ type: 'array', items: { type: 'record', name, fields: [{ name: 'key', type: 'int' }, { name: 'value', type: 'bytes' }] } });

const entrySchema = {
  type: 'record', name: 'manifest_entry', fields: [
    { name: 'status', type: 'int' }, { name: 'snapshot_id', type: ['null', 'long'] },
    { name: 'data_file', type: { type: 'record', name: 'r2', fields: [
      { name: 'content', type: 'int' }, { name: 'file_path', type: 'string' }, { name: 'file_format', type: 'string' },
      { name: 'partition', type: { type: 'record', name: 'r102', fields: [{ name: 'timestamp_day', type: ['null', 'int'] }] } },
      { name: 'record_count', type: 'long' }, { name: 'file_size_in_bytes', type: 'long' },
      { name: 'lower_bounds', type: ['null', bytesMap('k126')] }, { name: 'upper_bounds', type: ['null', bytesMap('k129')] },
      { name: 'sort_order_id', type: ['null', 'int'] } ] } } ] };

const listSchema = {
  type: 'record', name: 'manifest_file', fields: [
    { name: 'manifest_path', type: 'string' }, { name: 'partition_spec_id', type: 'int' }, { name: 'content', type: 'int' },
    { name: 'added_files_count', type: 'int' }, { name: 'existing_files_count', type: 'int' },
    { name: 'added_rows_count', type: 'long' }, { name: 'existing_rows_count', type: 'long' } ] };

function writeAvro(file, schema, records) {
  return new Promise((resolve, reject) => {
    const type = avro.Type.forSchema(schema, { registry: { long }, wrapUnions: false });
    const enc = new avro.streams.BlockEncoder(type, { codec: 'deflate' });
    const out = fs.createWriteStream(file);
    for (const s of [enc, out]) s.on('error', reject);
    out.on('close', resolve); // the bytes are in the file, not on their way to it
    enc.pipe(out);
    for (const r of records) enc.write(r);
    enc.end();
  });
}

const i64 = (n) => { const b = Buffer.alloc(8); b.writeBigInt64LE(BigInt(n)); return b; };

// build makes DIR/catalog.db with the table siglake.events of three rows. change edits the data file's manifest entry.
export async function build({ change = (f) => f, content = 0, fieldID = 2 } = {}) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'reader-test-'));
  const parquet = path.join(dir, 'a.parquet');
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  await db.run(`COPY (SELECT * FROM (VALUES
      (TIMESTAMPTZ '2024-02-29 23:59:59.999998Z', 9223372036854775807::BIGINT, 'a', MAP {'k': 'v', '': 'x'}, [1::BIGINT, NULL]::BIGINT[], 'NaN'::DOUBLE, [{'n': 'e', 'ns': 5::BIGINT}]),
      (TIMESTAMPTZ '2024-02-29 23:59:59.999999Z', '-9223372036854775808'::BIGINT, NULL, NULL, NULL, '-0.0'::DOUBLE, []),
      (TIMESTAMPTZ '2024-02-29 23:59:59.999999Z', 0::BIGINT, chr(65279) || 'zé', MAP {}, [], 5e-324::DOUBLE, NULL)) x(timestamp, big, body, attributes, counts, d, events))
    TO '${parquet}' (FORMAT parquet, FIELD_IDS {timestamp: 1, big: ${fieldID}, body: 3, attributes: {__duckdb_field_id: 4, key: 5, value: 6}, counts: {__duckdb_field_id: 7, element: 8}, d: 9, events: {__duckdb_field_id: 10, element: {__duckdb_field_id: 11, n: 12, ns: 13}}})`);
  const file = {
    content, file_path: `file://${parquet}`, file_format: 'PARQUET', partition: { timestamp_day: 19782 }, record_count: 3n,
    file_size_in_bytes: BigInt(fs.statSync(parquet).size), sort_order_id: 1,
    lower_bounds: [{ key: 1, value: i64(1709251199999998n) }, { key: 3, value: Buffer.from('a') }],
    upper_bounds: [{ key: 1, value: i64(1709251199999999n) }, { key: 3, value: Buffer.from('\uFEFFzé') }],
  };
  const manifest = path.join(dir, 'm.avro');
  const gone = { ...file, file_path: '/gone.parquet' };
  await writeAvro(manifest, entrySchema, [
    { status: 1, snapshot_id: 5n, data_file: change(file) }, { status: 2, snapshot_id: 5n, data_file: gone }]);
  const list = path.join(dir, 'snap.avro');
  await writeAvro(list, listSchema, [{ manifest_path: manifest, partition_spec_id: 0, content: 0, added_files_count: 1, existing_files_count: 0, added_rows_count: change(file).record_count, existing_rows_count: 0n }]);
  const md = path.join(dir, 'v1.metadata.json');
  fs.writeFileSync(md, `{"format-version":2,"table-uuid":"u","location":"file://${dir}","current-schema-id":0,"default-sort-order-id":1,
    "schemas":[{"schema-id":0,"fields":[{"id":1,"name":"timestamp","required":true,"type":"timestamptz"},{"id":2,"name":"big","type":"long"},
      {"id":3,"name":"body","type":"string"},{"id":4,"name":"attributes","type":{"type":"map"}},{"id":7,"name":"counts","type":{"type":"list"}},{"id":9,"name":"d","type":"double"},{"id":10,"name":"events","type":{"type":"list"}}]}],
    "partition-specs":[{"spec-id":0,"fields":[{"name":"timestamp_day","transform":"day","source-id":1,"field-id":1000}]}],
    "sort-orders":[{"order-id":1,"fields":[{"source-id":1,"transform":"identity","direction":"asc"}]}],
    "current-snapshot-id":9007199254740993,"snapshots":[{"snapshot-id":9007199254740993,"sequence-number":1,"summary":{},"manifest-list":"${list}"}]}`);
  const cat = new sqlite.Database(path.join(dir, 'catalog.db'));
  cat.exec('CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT, previous_metadata_location TEXT)');
  cat.run('INSERT INTO iceberg_tables VALUES (?,?,?,?,?)', ['c', 'siglake', 'events', `file://${md}`, null]);
  cat.close();
  return dir;
}
